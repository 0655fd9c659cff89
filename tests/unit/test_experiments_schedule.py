"""The order of rounds and the stopping rule."""

from collections import Counter, defaultdict
from pathlib import Path

from testbed.experiments.schedule import Leg, StoppingRule, block_order, legs, next_legs, remaining
from testbed.records.store import open_run

STATES = ["a", "b", "c", "d"]
RECORDED = ["badc", "bdca", "adbc", "dbca"]  # seed 7, blocks 0 to 3


def test_the_same_seed_gives_the_same_order():
    """As in any run of that seed before: here those of the first version, and of the reference runs."""
    assert ["".join(block_order(STATES, 7, k)) for k in range(4)] == RECORDED
    checked = 0
    for folder in (Path(__file__).resolve().parents[2] / "results").glob("reference-*"):
        run = open_run(folder)
        blocks = defaultdict(list)
        for record in run.rounds():
            if record.valid and not record.warmup:
                blocks[record.kernel, record.block].append((record.position, record.state))
        for (_, block), held in blocks.items():
            states = [state for state in run.run.states if state in {name for _, name in held}]
            assert [state for _, state in sorted(held)] == block_order(states, run.run.seed, block)
            checked += 1
    assert checked


def test_another_seed_gives_another_order():
    assert [block_order(STATES, 7, k) for k in range(20)] != [block_order(STATES, 8, k) for k in range(20)]


def test_a_block_holds_each_state_once():
    assert all(sorted(block_order(STATES, 3, k)) == STATES for k in range(100))


def test_each_state_comes_first_about_equally_often():
    first = Counter(block_order(STATES, 1, k)[0] for k in range(2000))
    assert all(430 < first[state] < 570 for state in STATES)  # 500 +- 3.6 standard deviations


def test_rounds_alone_decide_without_a_target():
    rule = StoppingRule(rounds=6, cap=84)
    assert not rule.enough(5, {"a : b": 0.001})
    assert rule.enough(6, {"a : b": 0.5})


def test_a_target_goes_on_until_every_interval_is_narrow_or_the_cap():
    rule = StoppingRule(rounds=6, cap=20, target=0.03)
    assert not rule.enough(5, {"x": 0.01, "y": 0.01})
    assert not rule.enough(6, {"x": 0.01, "y": 0.04})
    assert not rule.enough(6, {"x": 0.01, "y": None})
    assert rule.enough(7, {"x": 0.01, "y": 0.03})
    assert rule.enough(20, {"x": 0.5})


def test_a_width_twice_the_target_asks_for_four_times_the_rounds():
    assert remaining(StoppingRule(rounds=6, cap=84, target=0.01), 6, {"x": 0.02}) == 18
    assert remaining(StoppingRule(rounds=6, cap=20, target=0.01), 6, {"x": 0.02}) == 14


def test_more_boots_go_on_alternating_until_the_cap():
    planned = legs(["a", "b"], rounds=4, boots=2)
    assert planned == [Leg("a", 0, 0, 1), Leg("b", 1, 0, 1), Leg("b", 2, 2, 3), Leg("a", 3, 2, 3)]
    more = next_legs(planned, cap=7)
    assert more == [Leg("a", 4, 4, 5), Leg("b", 5, 4, 5)]
    assert next_legs([*planned, *more], cap=7) == [Leg("b", 6, 6, 6), Leg("a", 7, 6, 6)]
