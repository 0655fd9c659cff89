"""Queueing disciplines as a topology states them, by the words and units of `tc`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from testbed.yamlfile import did_you_mean

_TIME = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_RATE = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}
_SIZE = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}


def _quantity(units: dict[str, int], example: str) -> BeforeValidator:
    def parse(value: Any) -> int:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)", str(value))
        if isinstance(value, bool) or not match or match[2].lower() not in units:
            raise ValueError(f"'{value}' is not a quantity such as {example}")
        return round(float(match[1]) * units[match[2].lower()])

    return BeforeValidator(parse)


def _percent(value: Any) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%", str(value))
    if isinstance(value, float) and 0 <= value <= 1:
        return value
    if not match or float(match[1]) > 100:
        raise ValueError(f"'{value}' is not a share such as 0.1%")
    return float(match[1]) / 100


Time = Annotated[int, _quantity(_TIME, "10ms"), Field(description="a time such as 10ms; ns")]
Rate = Annotated[int, _quantity(_RATE, "1gbit"), Field(description="a rate such as 1gbit; bits a second")]
Size = Annotated[int, _quantity(_SIZE, "32kb"), Field(description="a size such as 32kb; bytes")]
Share = Annotated[float, BeforeValidator(_percent), Field(description="a share such as 0.1%")]
Packets = Annotated[int, Field(strict=True, ge=1, le=2**32 - 1)]


class _Qdisc(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoQueue(_Qdisc):
    """No queue: packets go straight to the device."""

    kind: Literal["noqueue"]

    def options(self) -> dict[str, int]:
        return {}


class Fq(_Qdisc):
    """Fair queueing with pacing."""

    kind: Literal["fq"]
    limit: Packets | None = Field(None, description="packets")
    flow_limit: Packets | None = Field(None, description="packets of one flow")
    maxrate: Rate | None = None

    def options(self) -> dict[str, int]:
        maxrate = None if self.maxrate is None else self.maxrate // 8
        return _given(limit=self.limit, flow_limit=self.flow_limit, maxrate=maxrate)


class FqCodel(_Qdisc):
    """Fair queueing with controlled delay."""

    kind: Literal["fq_codel"]
    limit: Packets | None = Field(None, description="packets")
    target: Time | None = None
    interval: Time | None = None
    ecn: Annotated[bool, Field(strict=True)] | None = None

    def options(self) -> dict[str, int]:
        times = {name: value // 1000 for name in ("target", "interval") if (value := getattr(self, name))}
        return {**_given(limit=self.limit, ecn=None if self.ecn is None else int(self.ecn)), **times}


class Tbf(_Qdisc):
    """A token bucket: at most `rate` on average, `burst` at once, `limit` waiting."""

    kind: Literal["tbf"]
    rate: Rate
    burst: Size
    limit: Size

    def options(self) -> dict[str, int]:
        return {"rate": self.rate // 8, "burst": self.burst, "limit": self.limit}


class Netem(_Qdisc):
    """An emulated network: delay, loss, rate."""

    kind: Literal["netem"]
    delay: Time | None = None
    jitter: Time | None = None
    loss: Share | None = None
    rate: Rate | None = None
    limit: Packets | None = Field(None, description="packets")

    def options(self) -> dict[str, int]:
        loss = None if self.loss is None else round(self.loss * (2**32 - 1))
        rate = None if self.rate is None else self.rate // 8
        return _given(delay=self.delay, jitter=self.jitter, loss=loss, rate=rate, limit=self.limit)


KERNEL_OPTIONS = {
    "noqueue": "CONFIG_NET_SCHED",
    "fq": "CONFIG_NET_SCH_FQ",
    "fq_codel": "CONFIG_NET_SCH_FQ_CODEL",
    "tbf": "CONFIG_NET_SCH_TBF",
    "netem": "CONFIG_NET_SCH_NETEM",
}


def _spelled_out(value: Any) -> Any:
    """A word alone is a kind without options."""
    value = {"kind": value} if isinstance(value, str) else value
    kind = value.get("kind") if isinstance(value, dict) else None
    if isinstance(value, dict) and kind not in KERNEL_OPTIONS:
        known = list(KERNEL_OPTIONS)
        near = did_you_mean(str(kind), known)
        raise ValueError(f"unknown qdisc '{kind}'{near}; known are {', '.join(known)}")
    return value


def _tag(value: Any) -> str:
    return str(value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None))


Qdisc = Annotated[
    Annotated[NoQueue, Tag("noqueue")]
    | Annotated[Fq, Tag("fq")]
    | Annotated[FqCodel, Tag("fq_codel")]
    | Annotated[Tbf, Tag("tbf")]
    | Annotated[Netem, Tag("netem")],
    Discriminator(_tag),
    BeforeValidator(_spelled_out),
]


def _given(**values: int | None) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}
