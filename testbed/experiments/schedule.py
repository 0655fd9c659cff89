"""The order of rounds, and when there are enough of them. Pure: same seed, same order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """One round's slot in the order: the `position` in its block, and the state to measure there."""

    block: int
    position: int
    state: str


def block_order(states: Sequence[str], seed: int, block: int) -> list[str]:
    """All states once, in the random order of this block.

    Each block draws from the seed and its own number, so a resumed run needs no
    replay. With two states a block is a randomised pair.
    """
    order = list(states)
    random.Random(f"{seed}/{block}").shuffle(order)
    return order


@dataclass(frozen=True)
class Leg:
    """Blocks `first` to `last` (None: until there are enough), measured one after the other on one kernel.

    `boot` counts the boots of all kernels in the run; rounds of different
    kernels are pairs by block.
    """

    kernel: str | None = None  # None: the running kernel
    boot: int = 0
    first: int = 0
    last: int | None = None


def legs(kernels: Sequence[str], rounds: int, boots: int) -> list[Leg]:
    """`boots` boots of each kernel in the order A B, B A, A B ..., the blocks split evenly over the boots."""
    result: list[Leg] = []
    for number in range(boots):
        first, last = rounds * number // boots, rounds * (number + 1) // boots - 1
        if last < first:
            continue  # more boots than rounds
        for kernel in kernels if number % 2 == 0 else reversed(kernels):
            result.append(Leg(kernel, len(result), first, last))
    return result


def next_legs(planned: Sequence[Leg], cap: int) -> list[Leg]:
    """A boot more of each kernel, in the opposite order and for as many blocks; `cap` blocks in all."""
    kernels = len({leg.kernel for leg in planned})
    result: list[Leg] = []
    for before in reversed(planned[-kernels:]):
        assert before.last is not None, "a leg without an end is the only one"
        last = min(cap - 1, 2 * before.last - before.first + 1)
        result.append(Leg(before.kernel, len(planned) + len(result), before.last + 1, last))
    return result


@dataclass(frozen=True)
class StoppingRule:
    """Enough rounds a state: at least `rounds`, then until the intervals are narrow or `cap` is reached.

    `target` is the largest half width asked of an effect's 95% interval, as a
    fraction of 1 (0.01 is 1%). The rule looks at widths, never at p or at the
    effect itself, so stopping does not bias what is found.
    """

    rounds: int
    cap: int
    target: float | None = None

    def enough(self, blocks: int, half_widths: Mapping[str, float | None]) -> bool:
        """Whether to stop after `blocks` whole blocks.

        `half_widths`: comparison -> half width of its effect's interval, None
        where it cannot be known yet. No comparisons: the target has nothing to
        judge and `rounds` decides.
        """
        if blocks < self.rounds:
            return False
        if self.target is None or blocks >= self.cap or not half_widths:
            return True
        return all(width is not None and width <= self.target for width in half_widths.values())


def remaining(rule: StoppingRule, blocks: int, half_widths: Mapping[str, float | None]) -> int:
    """An estimate of the blocks still to come: widths shrink with the square root of the rounds."""
    least = max(0, rule.rounds - blocks)
    if rule.target is None or not half_widths or blocks < 2:
        return least
    widest = max((width for width in half_widths.values() if width is not None), default=0.0)
    wanted = blocks * (widest / rule.target) ** 2
    return max(least, min(rule.cap, round(wanted)) - blocks)
