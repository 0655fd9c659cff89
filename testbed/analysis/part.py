"""What all parts of a report's data have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A value of a report: never changed, no other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
