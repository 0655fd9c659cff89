"""Two runs side by side, and a run as a file."""

import math
import random
import shlex
from collections import Counter

import pytest
from made_rounds import blocks_of, made_run, made_state, sample_with
from typer.testing import CliRunner

from testbed.analysis.report import make_report
from testbed.cli import app
from testbed.errors import InputError
from testbed.records.bundle import unpacked
from testbed.records.run import Kernel, Machine
from testbed.records.store import RunWriter
from testbed.reports.run_comparison import (
    agreement,
    compare_runs,
    compare_text,
    differences,
    reproduced,
    reproduced_text,
)
from testbed.reports.text import command_lines
from testbed.stats.compare import compare_pairs

STATES = {"a": made_state(), "b": made_state(nodelay=True)}


def report(mean_a, mean_b, *, sd=1e9, n=8, seed=1, **fields):
    values = {"a": sample_with(n, mean_a, sd, seed), "b": sample_with(n, mean_b, sd, seed + 1)}
    return make_report(made_run(STATES, **fields), blocks_of(["a", "b"], values))


def test_what_differs_between_two_runs_is_listed():
    patched = Kernel(release="6.18.5", version="#2 SMP")
    other = made_run(
        STATES | {"b": made_state(nodelay=True, length=512_000)},
        kernels={"6.18.5": patched},
        machine=Machine(cpu_model="Test CPU", cores=8),
        seed=99,
    )
    assert differences(made_run(STATES), other) == [
        "kernel: 6.18.5 #1 SMP / 6.18.5 #2 SMP",
        "machine cores: 2 / 8",
        "state b: workload.length: none / 512000",
    ]
    assert differences(made_run(STATES), made_run(STATES, seed=99)) == []


@pytest.mark.parametrize("text", [lambda a, b: compare_text(compare_runs(a, b)), reproduced_text])
def test_that_one_run_was_emulated_is_said_first(text):
    kernels = {name: Kernel(release="7.3.4", version="#1", accelerator=name) for name in ("kvm", "tcg")}
    native, emulated = (report(100e9, 100e9, kernels={"7.3.4": kernel}) for kernel in kernels.values())
    words = " ".join(text(native, emulated).split())
    assert "ran under software emulation (tcg), the other did not: packet sizes, refusals and order" in words
    assert words.index("emulation (tcg)") < words.index("kernel ran:")
    assert "kernel ran: in a VM with KVM / in a VM under software emulation" in words
    assert "emulation" not in text(native, native)


def test_two_runs_are_compared_unpaired_state_by_state():
    found = compare_runs(report(100e9, 100e9), report(110e9, 100e9, seed=5))
    bitrates = {one.state: one for one in found.comparisons if one.metric == "bits_per_second"}
    assert bitrates["a"].verdict == "b higher"
    assert bitrates["a"].effect == pytest.approx(1.1, abs=0.001)
    assert bitrates["b"].verdict == "no difference shown"
    assert found.paired is False


def test_the_text_says_what_differs_before_any_figure_and_that_it_is_unpaired():
    text = compare_text(compare_runs(report(100e9, 100e9), report(110e9, 100e9, machine=Machine(cores=8))))
    assert text.index("machine cores: 2 / 8") < text.index("Unpaired") < text.index("b/a [95% CI]")


@pytest.mark.parametrize(
    ("theirs", "ours", "judgement"),
    [
        (report(100e9, 110e9), report(50e9, 55.2e9, sd=0.5e9, seed=7), "agrees"),
        (report(100e9, 110e9), report(50e9, 50e9, sd=0.5e9, seed=7), "disagrees"),
        (report(100e9, 101e9), report(50e9, 52e9, sd=9e9, seed=7), "cannot tell"),
        (report(100e9, 100e9), report(50e9, 50.1e9, sd=0.5e9, seed=7), "agrees"),
        (report(100e9, 103e9, sd=0.3e9), report(50e9, 50e9, sd=0.1e9, seed=7), "disagrees"),
        (report(10e9, 100e9), report(10e9, 80e9, sd=0.2e9, seed=7), "agrees"),
        (report(10e9, 100e9), report(10e9, 40e9, sd=0.2e9, seed=7), "disagrees"),
        (report(100e9, 110e9), report(110e9, 100e9, seed=7), "disagrees"),
        (report(10e9, 100e9, sd=0.2e9), report(10e9, 50e9, sd=5e9, seed=7), "cannot tell"),
    ],
)
def test_effects_are_judged_and_absolute_figures_are_not(theirs, ours, judgement):
    (one,) = reproduced(theirs, ours)
    assert one.judgement == judgement


def judgements(theirs, ours, *, between, spread, runs=300, pairs=8):
    """How runs with these true effects are judged; `between` is how effects vary from run to run."""
    rng = random.Random(1)

    def run(effect):
        log = math.log(effect) * rng.gauss(1, between)
        a, b = ([math.exp(level) * rng.gauss(1, spread) for _ in range(pairs)] for level in (0, log))
        return compare_pairs(a, b)

    return Counter(agreement(run(theirs), run(ours), 1.05) for _ in range(runs))


@pytest.mark.parametrize(("effect", "between"), [(10, 0.06), (10, 0), (1.1, 0.1), (1, 0)])
def test_the_same_effect_seldom_disagrees_though_runs_vary_by_more_than_their_rounds(effect, between):
    found = judgements(effect, effect, between=between, spread=0.02)
    assert found["disagrees"] <= 0.02 * found.total()
    assert found["agrees"] >= 0.8 * found.total()


@pytest.mark.parametrize(("theirs", "ours"), [(10, 4), (1.1, 1), (1.1, 1 / 1.1)])
def test_another_effect_hardly_ever_agrees(theirs, ours):
    found = judgements(theirs, ours, between=0.03, spread=0.02)
    assert found["agrees"] <= 0.02 * found.total()
    assert found["disagrees"] >= 0.8 * found.total()


@pytest.fixture
def results(tmp_path):
    """Two runs of the same states in a results folder."""
    for number, level in enumerate((100e9, 110e9)):
        writer = RunWriter.create(tmp_path, made_run(STATES, run_id=f"run{number}"))
        (writer.raw / "00000-a-iperf3.json").write_text("{}")
        for record in blocks_of(
            ["a", "b"], {"a": sample_with(6, level, 1e9), "b": sample_with(6, level, 1e9, 2)}
        ):
            writer.append(record)
        writer.close()
    return tmp_path


def command(*arguments):
    return CliRunner().invoke(
        app, [str(one) for one in arguments], catch_exceptions=False, standalone_mode=False
    )


def test_compare_refuses_a_state_that_one_run_lacks(results):
    with pytest.raises(InputError, match="state 'c' is not in both runs; in both are a, b"):
        command("compare", "run0", "run1", "--states", "c", "--results", results)


def test_an_exported_run_reads_back_as_it_was(results, tmp_path):
    file = tmp_path / "run0.tar.gz"
    assert command("export", "run0", "--results", results, "--output", file).stdout == f"{file}\n"
    with unpacked(file) as folder:
        copied = command("report", folder, "--json").stdout
        assert (folder / "raw" / "00000-a-iperf3.json").exists()
    assert copied == command("report", "run0", "--results", results, "--json").stdout


def test_the_command_to_repeat_fits_75_columns_and_is_still_the_command():
    argv = ["testbed", "run", "nagle", *(f"--set=client:veth0.mtu={n} {n}" for n in range(9))]
    lines = command_lines(argv)
    assert max(map(len, lines)) <= 75
    assert shlex.split("\n".join(lines[1:]).replace("\\\n", " ")) == argv
