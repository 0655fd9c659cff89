"""A run's progress on stderr: one live line on a terminal, one plain line a round elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import shorten
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from testbed.experiments.schedule import StoppingRule, remaining
from testbed.records.round import Round
from testbed.records.run import Run, state_label
from testbed.running.measure import Task
from testbed.running.runner import Observer, Progress

MOST_OF_A_REASON = 100  # columns


class Terminal(Observer, AbstractContextManager["Terminal"]):
    """Prints what a run does, and its time left, learnt from the rounds so far."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._done: dict[str, set[int]] = {}  # label -> blocks that had their round, valid or not
        self._rule = StoppingRule(rounds=1, cap=1)
        self._took: list[float] = []
        self._progress = Progress([])

    def __enter__(self) -> Terminal:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def begun(self, run: Run, folder: Path, rule: StoppingRule, seconds: float) -> None:
        self._done = {label: set() for label in _labels(run) if label not in run.skipped}
        self._rule = rule
        open_ended = rule.target is not None and rule.cap > rule.rounds
        upto = f"{rule.rounds} to {rule.cap}" if open_ended else str(rule.rounds)
        self._say(
            f"{run.experiment['name']}: {len(self._done)} states x {upto} rounds, "
            f"at least {_clock(seconds)}, seed {run.seed}, into {folder}"
        )
        collect = run.experiment.get("collect", {})
        if collect.get("stacks") or collect.get("profile"):
            self._say("what perf records is read back after each round, which takes seconds")

    def waiting(self, reason: str) -> None:
        self._say(reason)

    def skipped(self, state: str, reason: str) -> None:
        self._done.pop(state, None)
        self._say(f"skip {state}: {reason}")

    def measuring(self, task: Task) -> None:
        if self._console.is_terminal:
            what = "warm-up" if task.warmup else f"block {task.slot.block + 1}"
            self._live.update(Text(f"  {what}  {task.state.name}  {self._outlook()}", overflow="ellipsis"))

    def measured(self, record: Round, progress: Progress) -> None:
        self._progress = progress
        self._took.append(record.wall_s)
        if not record.warmup:
            self._done.setdefault(progress.label(record.state, record.kernel), set()).add(record.block)
        figure = _gbit(record)
        place = "warm-up" if record.warmup else f"block {record.block + 1}"
        verdict = "" if record.valid else f"  INVALID: {_short(record.reason or '')}"
        line = f"round {record.round:3d}  {place:9s} {record.state:24s} {figure}{verdict}"
        self._say(line if self._console.is_terminal else f"{line}  {self._outlook()}".rstrip())

    def _outlook(self) -> str:
        """How well the effects are known so far, and the time left."""
        if not self._took:
            return ""
        widths = self._progress.half_widths()
        known = [width for width in widths.values() if width is not None]
        blocks = self._progress.blocks + remaining(self._rule, self._progress.blocks, widths)
        rounds = sum(max(0, blocks - len(done)) for done in self._done.values())
        left = rounds * sum(self._took) / len(self._took)
        # With a pair or two a width says nothing but that it is too early.
        precision = [f"effects known to +-{max(known):.1%}"] if known and max(known) < 1 else []
        return "  ".join([*precision, f"{_clock(left)} left"])

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


def _labels(run: Run) -> list[str]:
    """What is measured: each state on each kernel that it may run on."""
    return [
        state_label(name, kernel, len(run.kernels))
        for name, state in run.states.items()
        for kernel in run.kernels
        if state.get("kernel") in (None, kernel)
    ]


def _gbit(record: Round) -> str:
    rate = record.workload.bits_per_second if record.workload else None
    return " " * 12 if rate is None else f"{rate / 1e9:7.2f} Gbit/s"


def _short(reason: str) -> str:
    """What fits beside a round's figures; all of it is in the record, and in the report."""
    return shorten(reason, MOST_OF_A_REASON, placeholder=" ...")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
