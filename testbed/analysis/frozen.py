"""The base of all models of a report's data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A pydantic model that cannot be changed and allows no other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
