"""Notes and figures for runs with several kernels or several boots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from testbed.analysis.columns import StateRounds
from testbed.analysis.frozen import FrozenModel
from testbed.analysis.metric_key import DeviceMetric, PacketSizeKey, packet_size
from testbed.analysis.metrics import BITS
from testbed.headers import JUMBO_OPTION, LARGEST_PAYLOAD
from testbed.records.run import Run, state_label
from testbed.stats.boots import boot_interval, levels

EMULATED = (
    "{kernels} ran under software emulation (tcg): the figures show function "
    "(packet sizes, refusals, order), never performance"
)
ONE_BOOT = (
    "One boot of a kernel only: a difference between kernels cannot be told from one between boots; "
    "ask for more with --boots."
)


class BootsData(FrozenModel):
    """The throughput of a state by boots, in bit/s."""

    boots: int
    sd_within: float | None
    sd_between: float | None = Field(description="of the boots' true means; null with one boot")


def emulation_notes(run: Run) -> Iterator[str]:
    """Warnings for runs whose kernels were emulated."""
    emulated = [name for name, kernel in run.kernels.items() if kernel.accelerator == "tcg"]
    if emulated:
        yield EMULATED.format(kernels=", ".join(emulated))


def boots_of(run: Run, states: Mapping[str, StateRounds]) -> dict[str, BootsData]:
    """The levels of each state that ran on a booted kernel, or in several boots."""
    found = {}
    for name, held in states.items():
        kernel = run.kernels.get(held.kernel)
        by_boot = _by_boot(held)
        if by_boot and (len(by_boot) > 1 or (kernel is not None and kernel.accelerator is not None)):
            one = levels([list(values.values()) for values in by_boot.values()])
            found[name] = BootsData(boots=one.boots, sd_within=one.within, sd_between=one.between)
    return found


def lost_sides(run: Run) -> Iterator[str]:
    """The comparisons that lack a side because a state was skipped, in words."""
    gone: dict[str, list[str]] = {}
    lost: dict[str, list[str]] = {}  # kernels -> states skipped on those and measured on another
    for state, body in run.states.items():
        kernels = [name for name in run.kernels if body.get("kernel") in (None, name)]
        labels = {name: state_label(state, name, len(run.kernels)) for name in kernels}
        gone[state] = [name for name in kernels if labels[name] in run.skipped]
        if 0 < len(gone[state]) < len(kernels):
            lost.setdefault(", ".join(gone[state]), []).append(state)
    for skipped, states in lost.items():
        names = ", ".join(states)
        if len(states) == 1:
            yield f"The comparison of {names} across kernels lost a side: it was skipped on {skipped}."
        else:
            yield f"The comparisons across kernels of {names} lost a side: they were skipped on {skipped}."
    for a, b in run.experiment.get("compare") or () if len(run.kernels) < 2 else ():
        skipped = " and ".join(state for state in (a, b) if gone.get(state))
        if skipped:
            yield f"The comparison of {a} and {b} lost a side: {skipped} was skipped."


def across_remarks(
    run: Run,
    states: Mapping[str, StateRounds],
    compared: Sequence[tuple[str, str]],
    main: Callable[[str], Collection[DeviceMetric]],
) -> Iterator[str]:
    """Remarks on comparisons across kernels. `main`: the main packet-size metrics of a state."""
    pairs = [(a, b) for a, b in compared if states[a].kernel != states[b].kernel]
    if not pairs:
        return
    if any(len(_by_boot(states[name])) < 2 for pair in pairs for name in pair):
        yield ONE_BOOT
    for a, b in pairs:
        grouped = _ratios_by_boots(_by_boot(states[a]), _by_boot(states[b]))
        interval = boot_interval(grouped)
        if interval:
            low, high = (f"{(end - 1) * 100:+.1f}%" for end in interval)
            yield f"{b} / {a}, bitrate, by {len(grouped)} pairs of boots: [{low}, {high}]."
    yield from _jumbo_header(run.states, states, pairs, main)


def _by_boot(held: StateRounds) -> dict[int, dict[int, float]]:
    """Boot -> block -> bits a second."""
    found: dict[int, dict[int, float]] = {}
    series = held.series(BITS)
    boots = dict(zip(held.rounds, held.boots, strict=True))
    for number, block, value in zip(series.rounds, series.blocks, series.values, strict=True):
        found.setdefault(boots[number], {})[block] = value
    return found


def _ratios_by_boots(a: dict[int, dict[int, float]], b: dict[int, dict[int, float]]) -> list[list[float]]:
    """The ratios b/a within blocks, those of one pair of boots together."""
    pairs = ((x, y) for x in a.values() for y in b.values())
    grouped = [
        [y[block] / x[block] for block in x if block in y and x[block] > 0 < y[block]] for x, y in pairs
    ]
    return [ratios for ratios in grouped if ratios]


def _jumbo_header(
    requested: Mapping[str, Mapping[str, Any]],
    states: Mapping[str, StateRounds],
    pairs: Sequence[tuple[str, str]],
    main: Callable[[str], Collection[DeviceMetric]],
) -> Iterator[str]:
    """A remark where one kernel sends the jumbo option (testbed.kernel_facts) and the other does not."""
    for a, b in pairs:
        options = requested.get(states[a].state, {}).get("workload") or {}
        left, right = (set(filter(None, map(_large, main(name)))) for name in (a, b))
        more = {side for side, size in left if (side, size - JUMBO_OPTION) in right - left}
        fewer = {side for side, size in left if (side, size + JUMBO_OPTION) in right - left}
        if str(options.get("family", 6)) != "4" and bool(more) != bool(fewer):
            kernels = [states[name].kernel for name in (a, b)]
            with_header, without = kernels if more else reversed(kernels)
            yield (
                f"IPv6 sizes above {LARGEST_PAYLOAD} are {JUMBO_OPTION} bytes larger on {with_header} "
                f"than on {without}: it puts a jumbo header (hop-by-hop option) into GSO packets. Their "
                "payload is the same."
            )
            return


def _large(metric: DeviceMetric) -> PacketSizeKey | None:
    """A packet size that needs more than the IPv6 length field."""
    found = packet_size(metric)
    return found if found and found.size > LARGEST_PAYLOAD else None
