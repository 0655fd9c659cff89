"""Queueing disciplines in a topology file, with the option names and units of `tc`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from testbed.unit_fields import BitRate, Bytes, Nanoseconds, Share
from testbed.yamlfile import did_you_mean

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
    maxrate: BitRate | None = None

    def options(self) -> dict[str, int]:
        maxrate = None if self.maxrate is None else self.maxrate // 8
        return _given(limit=self.limit, flow_limit=self.flow_limit, maxrate=maxrate)


class FqCodel(_Qdisc):
    """Fair queueing with controlled delay."""

    kind: Literal["fq_codel"]
    limit: Packets | None = Field(None, description="packets")
    target: Nanoseconds | None = None
    interval: Nanoseconds | None = None
    ecn: Annotated[bool, Field(strict=True)] | None = None

    def options(self) -> dict[str, int]:
        times = {name: value // 1000 for name in ("target", "interval") if (value := getattr(self, name))}
        return {**_given(limit=self.limit, ecn=None if self.ecn is None else int(self.ecn)), **times}


class Tbf(_Qdisc):
    """A token bucket: at most `rate` on average, `burst` at once, `limit` waiting."""

    kind: Literal["tbf"]
    rate: BitRate
    burst: Bytes
    limit: Bytes

    def options(self) -> dict[str, int]:
        return {"rate": self.rate // 8, "burst": self.burst, "limit": self.limit}


class Netem(_Qdisc):
    """An emulated network: delay, loss, rate."""

    kind: Literal["netem"]
    delay: Nanoseconds | None = None
    jitter: Nanoseconds | None = None
    loss: Share | None = None
    rate: BitRate | None = None
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
    if isinstance(value, dict) and (not isinstance(kind, str) or kind not in KERNEL_OPTIONS):
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
