"""The TCP flow over the measured seconds, as the mean of a state's rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.records.round import Round

STEP_S = 0.25  # as often as a flow is sampled
FIGURES = ("snd_cwnd", "rtt_us")


@dataclass
class FlowOverTime:
    """(figure, step) -> how many rounds have it, and their sum. Rounds add to it, none is kept."""

    sums: dict[tuple[str, int], tuple[int, float]] = field(default_factory=dict)

    def add(self, record: Round) -> None:
        """A round's samples. Of two in one step the later counts."""
        if record.tcp is None:
            return
        steps = {round(one.at_s / STEP_S): one for one in record.tcp.samples}
        for step, one in steps.items():
            for name in FIGURES:
                if (value := getattr(one, name)) is not None:
                    rounds, total = self.sums.get((name, step), (0, 0.0))
                    self.sums[name, step] = rounds + 1, total + value

    def means(self, name: str) -> list[tuple[float, float]]:
        """(seconds, mean) of a figure, in order; without the steps that less than half of the rounds have."""
        held = {step: one for (figure, step), one in self.sums.items() if figure == name}
        most = max((rounds for rounds, _ in held.values()), default=0)
        return [
            (step * STEP_S, total / rounds)
            for step, (rounds, total) in sorted(held.items())
            if rounds * 2 >= most
        ]
