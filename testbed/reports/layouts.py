"""Tables for cover letters: a grid of gains, and before/after figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_interface
from itertools import product
from typing import Any

from testbed.analysis.columns import StateRounds
from testbed.analysis.metric_key import DeviceMetric, Side
from testbed.analysis.metrics import BITS
from testbed.analysis.report import Report
from testbed.records.run import state_label
from testbed.reports.figures_text import table
from testbed.reports.tables import Table

# netperf prints 10^6 bits a second with two decimals; whoever uses it quotes it so.
UNITS = {"netperf": ("Mbit/s", 1e-6, 2)}
USUAL_UNIT = ("Gbit/s", 1e-9, 3)
CPU_FIELDS = ("user", "system", "idle", "iowait", "irq", "softirq")
# Rows of a sender's state: title, metrics, how each is printed.
SENDER_FIELDS: Sequence[tuple[str, Sequence[str], str, str]] = (
    ("Tx Gbps, bytes, microseconds", ("gbits", "bytes", "measured_us"), "{:.3f}, {:.0f}, {:.0f}", ""),
    ("TCP retrans, reord", ("retransmits", "tcp.reord_seen"), "{:.0f}, {:.0f}", ""),
    ("TCP rtt, rttvar", ("tcp.rtt_us", "tcp.rttvar_us"), "{:.0f}, {:.0f}", ""),
    (
        "d_ce, snd_wnd, cwnd",
        ("tcp.delivered_ce", "tcp.snd_wnd", "tcp.snd_cwnd"),
        "{:.0f}, {:.0f}, {:.0f}",
        "",
    ),
    ("net CPU usr/sys/idle/iow/irq/sirq", CPU_FIELDS, "/".join(["{:.2f}"] * 6), "cpu.net."),
    ("app CPU usr/sys/idle/iow/irq/sirq", CPU_FIELDS, "/".join(["{:.2f}"] * 6), "cpu.app."),
)


def table_report(report: Report) -> str:
    """The tables of this module as text, for a cover letter."""
    found = list(layouts(report))
    if not found:
        return "No two states to put side by side.\n"
    parts = ["\n".join([one.heading, *table(one.header, one.rows)]) for one in found]
    return "\n\n".join(parts) + "\n"


def layouts(report: Report) -> Iterator[Table]:
    """What each kernel did, else the grid of a matrix, else each compared pair figure by figure."""
    grid = kernel_table(report) or gain_grid(report)
    if grid:
        yield grid
        return
    for a, b in dict.fromkeys((one.a, one.b) for one in report.data.comparisons):
        yield before_after(report, a, b)
        fields = sender_fields(report, a, b)
        if fields.rows:
            yield fields


def gain_grid(report: Report) -> Table | None:
    """Mean throughput on one kernel by the axes of a matrix: the compared axis across, the others down.

    Two columns have their gain beside them, with its interval. None without a matrix.
    """
    axes: Mapping[str, Mapping[str, Any]] = (report.run.experiment.get("matrix") or {}).get("axes") or {}
    if not axes or len(report.run.kernels) > 1:  # kernels have a table of their own
        return None
    across = _compared_axis(report, axes)
    down = [axis for axis in axes if axis != across]
    columns = list(axes[across])
    rows = []
    for values in product(*(axes[axis] for axis in down)):
        place = dict(zip(down, values, strict=True))
        names = ["-".join((place | {across: column})[axis] for axis in axes) for column in columns]
        if any(name in report.data.states for name in names):
            gain = [_gain(report, names)] if len(names) == 2 else []
            rows.append([", ".join(values), *(_throughput(report, name) for name in names), *gain])
    header = [" and ".join(down), *columns, *(["gain"] if len(columns) == 2 else [])]
    return Table("Throughput", header, rows)


def kernel_table(report: Report) -> Table | None:
    """What each kernel did with each state: packets received, and what was sent again.

    The sizes are of the device that hands the flow's packets to TCP: what a tunnel
    loses, the device below it has still received. None with one kernel.
    """
    kernels = list(report.run.kernels)
    if len(kernels) < 2:
        return None
    rows = []
    for state, resolved in report.run.states.items():
        names = [state_label(state, kernel, len(kernels)) for kernel in kernels]
        if any(name in report.data.states for name in names):
            rows.append([state, *(_received(report, name, _receiver(resolved)) for name in names)])
    places = {_receiver(state) for state in report.run.states.values()}
    where = f" by {places.pop()}" if len(places) == 1 and None not in places else ""
    return Table(f"Largest and mean packet received{where}, bytes; retransmits", ["state", *kernels], rows)


def _receiver(state: Mapping[str, Any]) -> str | None:
    """`node:device` of the address that a recorded state's flow goes to: the node's first of its family."""
    node, family = state["workload"].get("to"), state["workload"].get("family")
    found = ((state.get("topology") or {}).get("nodes") or {}).get(node) or {}
    for device, config in found.get("devices", {}).items():
        if any(ip_interface(address).version == family for address in config.get("addresses", [])):
            return f"{node}:{device}"
    return None


def _received(report: Report, state: str, place: str | None) -> str:
    """What arrived at `place`, or where nobody knows that, at the side that saw the largest packet."""
    if state in report.run.skipped:
        return "skipped"
    held = report.data.states.get(state) or {}
    sides = [
        Side(key.node, key.device, key.direction)
        for key in held
        if isinstance(key, DeviceMetric) and key.direction == "rx" and key.what == "largest_size"
    ]
    if not sides:
        return "no valid round"
    largest = max(sides, key=lambda one: held[one.metric("largest_size")].max)
    side = next((one for one in sides if str(one) == f"{place} rx"), largest)
    again = held.get("retransmits")
    resent = f"; {again.mean:.0f}" if again else ""
    size, mean = held[side.metric("largest_size")].max, held[side.metric("mean_size")].mean
    return f"{size:.0f}, {mean:.0f}{resent}"


def before_after(report: Report, a: str, b: str) -> Table:
    """Two states figure by figure, medians; CPU with its change in percent of what it was."""
    rows = []
    for key in report.data.states[a]:
        if isinstance(key, DeviceMetric) and (key.direction, key.what) == ("tx", "frags_low"):
            rows.append(
                [f"frags per skb ({key.reference})", *(_frags(report, state, key) for state in (a, b))]
            )
    rows.append(["throughput", *(f"{_median(report, state, BITS) * 1e-9:.1f} Gb/s" for state in (a, b))])
    for name, title in (("cpu.app.system", "app CPU (sys)"), ("cpu.net.softirq", "net CPU (softirq)")):
        if all(name in report.data.states[state] for state in (a, b)):
            before, after = (_median(report, state, name) for state in (a, b))
            change = f" ({after / before - 1:+.0%})" if before else ""
            rows.append([title, f"{before:.1f}%", f"{after:.1f}%{change}"])
    return Table("Medians", ["", a, b], rows)


def sender_fields(report: Report, a: str, b: str) -> Table:
    """The sender's TCP and CPU state in the round of each state whose throughput is nearest its median."""
    rounds = [_median_round(report.columns.states[state]) for state in (a, b)]
    rows = []
    for title, names, form, prefix in SENDER_FIELDS:
        if all(prefix + name in values for name in names for values in rounds):
            rows.append(
                [title, *(form.format(*(values[prefix + name] for name in names)) for values in rounds)]
            )
    return Table("The round nearest the median", ["field", a, b], rows)


def _compared_axis(report: Report, axes: Mapping[str, Mapping[str, Any]]) -> str:
    """The axis in which a compared pair of states differs; without one, the last."""
    positions = {"-".join(values): values for values in product(*axes.values())}
    for one in report.data.comparisons:
        if one.a in positions and one.b in positions:
            pairs = zip(axes, positions[one.a], positions[one.b], strict=True)
            differing = [axis for axis, x, y in pairs if x != y]
            if len(differing) == 1:
                return differing[0]
    return list(axes)[-1]


def _throughput(report: Report, state: str) -> str:
    summary = report.data.states.get(state, {}).get(BITS)
    if summary is None:
        return "not measured"
    workload = report.run.states[report.columns.states[state].state].get("workload") or {}
    unit, factor, digits = UNITS.get(str(workload.get("tool")), USUAL_UNIT)
    return f"{summary.mean * factor:.{digits}f} {unit}"


def _gain(report: Report, names: Sequence[str]) -> str:
    """`14.9% [14.2%, 15.6%]`; without enough rounds only the ratio of the means."""
    for one in report.data.comparisons:
        if one.metric == BITS and [one.a, one.b] == list(names) and one.effect is not None:
            ends = f" [{', '.join(f'{end - 1:.1%}' for end in one.ci95)}]" if one.ci95 else ""
            return f"{one.effect - 1:.1%}{ends}"
    means = [report.data.states.get(name, {}).get(BITS) for name in names]
    if means[0] is None or means[1] is None:
        return ""
    return f"{means[1].mean / means[0].mean - 1:.1%}"


def _frags(report: Report, state: str, lowest: DeviceMetric) -> str:
    low, high = (_median(report, state, key) for key in (lowest, lowest._replace(what="frags_high")))
    return f"{low:.0f}-{high:.0f}" if low != high else f"{low:.0f}"


def _median(report: Report, state: str, metric: str | DeviceMetric) -> float:
    summary = report.data.states[state].get(metric)
    return summary.median if summary else 0.0


def _median_round(held: StateRounds) -> dict[str | DeviceMetric, float]:
    """Every figure of the round whose throughput is nearest the state's median."""
    series = held.series(BITS)
    if not series.values:
        return {}
    middle = sorted(series.values)[len(series.values) // 2]
    chosen = min(range(len(series.values)), key=lambda index: abs(series.values[index] - middle))
    values = held.values_at(held.rounds.index(series.rounds[chosen]))
    return {**values, "gbits": values[BITS] * 1e-9}
