"""Runs of several kernels: boots, lost sides, emulation, the jumbo header."""

from xml.etree import ElementTree

import pytest
from made_rounds import made_round, made_run, made_state, packets, sample_with
from msgspec.structs import replace

from testbed.analysis.report import make_report
from testbed.records.run import Kernel
from testbed.reports.ci import junit_report, ktap_report
from testbed.reports.html import html_report
from testbed.reports.markdown import markdown_report
from testbed.reports.text import text_report
from testbed.stats.boots import boot_interval, levels

OLD, NEW = "6.18.5", "7.3.4"
SIDE = "server:veth0"


def kernels_run(accelerator="kvm", states=("a",), **fields):
    kernels = {name: Kernel(release=name, version="#1", accelerator=accelerator) for name in (OLD, NEW)}
    return made_run({name: made_state() for name in states}, kernels=kernels, **fields)


def kernels_rounds(boots=2, blocks=4, sizes=None, states=("a",), only=(OLD, NEW)):
    """`blocks` blocks in each boot; the boots of a kernel differ by 10 Gbit/s."""
    rounds = []
    for boot in range(boots):
        for kernel in only:
            for block in range(boot * blocks, (boot + 1) * blocks):
                for state in states:
                    value = 50e9 + boot * 10e9 + (block % 2) * 1e9 + (5e9 if kernel == NEW else 0)
                    rows = packets(SIDE, "rx", {size: 100 for size in (sizes or {}).get(kernel, ())})
                    number = 2 * boot + (kernel == NEW)
                    rounds.append(
                        made_round(
                            len(rounds), state, block, value, kernel=kernel, boot=number, packet_sizes=rows
                        )
                    )
    return rounds


def text_of(run, rounds):
    return " ".join(text_report(make_report(run, rounds)).split())


def test_levels_are_those_of_the_analysis_of_variance():
    """Two boots of two: mean squares 50 between (means 2 and 12 apart from 7) and 2 within."""
    found = levels([[1.0, 3.0], [11.0, 13.0], []])
    assert found.boots == 2
    assert found.within == pytest.approx(2**0.5)
    assert found.between == pytest.approx(((100 - 2) / 2) ** 0.5)


def test_boots_that_differ_no_more_than_rounds_do_have_no_spread_of_their_own():
    assert levels([[1.0, 9.0], [2.0, 8.0]]).between == 0.0
    assert levels([[1.0, 2.0, 3.0]]).between is None
    assert levels([[1.0], [2.0]]).within is None


def test_levels_recover_what_random_boots_were_made_with():
    means = sample_with(200, 50.0, 3.0)
    found = levels([sample_with(5, mean, 1.0, seed) for seed, mean in enumerate(means)])
    assert found.within == pytest.approx(1.0)
    assert found.between == pytest.approx((9 - 1 / 5) ** 0.5)


def test_a_ratio_by_boots_counts_each_pair_of_boots_once():
    low, high = boot_interval([[1.1, 1.1, 1.1], [1.2]])
    assert low < 1.1 < 1.2 < high
    assert boot_interval([[1.1, 1.2]]) is None
    assert boot_interval([[1.1], [1.1], []]) == pytest.approx((1.1, 1.1))


def test_the_variation_between_boots_stands_beside_that_within():
    report = make_report(kernels_run(), kernels_rounds())
    one = report.data.boots[f"a@{OLD}"]
    assert (one.boots, one.sd_within) == (2, pytest.approx(0.577e9, rel=0.01))
    assert one.sd_between == pytest.approx(7.07e9, rel=0.01)
    line = "2 boots: sd between boots 7.07 Gbit/s, within 0.58 Gbit/s"
    assert line in text_report(report).splitlines()
    assert "sd between boots 7.07 Gbit/s" in markdown_report(report)
    assert "sd between boots 7.07 Gbit/s" in html_report(report)


def test_the_effect_across_kernels_is_given_by_boots_too():
    assert "bitrate, by 2 pairs of boots: [" in text_of(kernels_run(), kernels_rounds())
    assert "One boot of a kernel only" not in text_of(kernels_run(), kernels_rounds())


def test_one_boot_is_said_to_be_one():
    text = text_of(kernels_run(), kernels_rounds(boots=1))
    assert text.count("One boot of a kernel only") == 1
    assert "1 boot: within 0.58 Gbit/s" in text


def test_a_run_on_the_machine_itself_has_no_boots():
    data = make_report(made_run({"a": made_state()}), [made_round(0, "a", 0), made_round(1, "a", 1)]).data
    assert (data.boots, data.across_kernels) == ({}, [])


def test_a_state_skipped_on_one_kernel_loses_a_side_and_is_not_judged_there():
    expect = [{"a": {"bits_per_second": "> 1G"}}]
    run = kernels_run(
        experiment={"name": "made", "expect": expect},
        skipped={f"a@{OLD}": "client:vxlan0: too big gso_max_size"},
    )
    report = make_report(run, [*kernels_rounds(only=(NEW,)), made_round(99, "b", 0, kernel=OLD)])
    assert [(one.expectation, one.holds) for one in report.data.expectations] == [
        (f"a: bits_per_second > 1G on {NEW}", True)
    ]
    assert f"The comparison of a across kernels lost a side: it was skipped on {OLD}." in text_of(
        run, kernels_rounds(only=(NEW,))
    )


def test_states_skipped_on_the_same_kernel_are_named_in_one_sentence():
    run = kernels_run(states=("a", "b"), skipped={f"{state}@{OLD}": "too big" for state in "ab"})
    text = text_of(run, kernels_rounds(states=("a", "b"), only=(NEW,)))
    assert f"The comparisons across kernels of a, b lost a side: they were skipped on {OLD}." in text
    assert f"Skipped: a@{OLD}, b@{OLD}: too big" in text


def test_an_asked_comparison_whose_state_was_skipped_lost_a_side():
    run = made_run({"a": made_state(), "b": made_state()}, skipped={"b": "veth.max_mtu is 65535"})
    text = text_of(run, [made_round(0, "a", 0)])
    assert "The comparison of a and b lost a side: b was skipped." in text


def test_emulated_figures_are_said_to_show_function_only():
    text = text_of(kernels_run("tcg"), kernels_rounds())
    assert f"Note: {OLD}, {NEW} ran under software emulation (tcg): the figures show function" in text
    assert "emulation" not in text_of(kernels_run("kvm"), kernels_rounds())


def test_ipv6_sizes_that_differ_by_the_jumbo_header_are_told_once():
    sizes = {OLD: (862, 511318, 512094), NEW: (862, 511310, 512086)}
    text = text_of(kernels_run(states=("a", "b")), kernels_rounds(sizes=sizes, states=("a", "b")))
    assert text.count(f"8 bytes larger on {OLD} than on {NEW}") == 1
    same = {OLD: (862, 511318), NEW: (862, 511318)}
    assert "jumbo header" not in text_of(kernels_run(), kernels_rounds(sizes=same))


def test_what_each_kernel_did_with_each_state_stands_side_by_side():
    sizes = {OLD: (1000, 65000), NEW: (1000, 130524)}
    run = kernels_run(states=("a", "b"), skipped={f"b@{OLD}": "too big gso_max_size"})
    rounds = kernels_rounds(sizes=sizes) + kernels_rounds(sizes=sizes, states=("b",), only=(NEW,))
    report = make_report(run, rounds)
    lines = text_report(report).splitlines()
    start = lines.index("Largest and mean packet received, bytes; retransmits")
    assert lines[start + 1 : start + 4] == [
        "state  6.18.5           7.3.4",
        "a      65000, 33000; 0  130524, 65762; 0",
        "b      skipped          130524, 65762; 0",
    ]
    for maker in (markdown_report, html_report):
        assert "130524, 65762; 0" in maker(report)


def test_what_a_tunnel_lost_was_not_received_by_the_tunnel():
    """The table is about the device with the flow's address, not about the one below it."""
    devices = {
        "vxlan0": {"kind": "vxlan", "dev": "veth0", "addresses": ["10.1.0.2/24", "fd01::2/64"]},
        "veth0": {"addresses": ["fd00::2/64"]},
    }
    run = kernels_run()
    state = run.states["a"] | {"topology": {"nodes": {"server": {"devices": devices}}}}
    rounds = [
        replace(record, packet_sizes=record.packet_sizes + vxlan_received(record))
        for record in kernels_rounds(sizes={OLD: (130524,), NEW: (130524,)})
    ]
    text = text_report(make_report(run.model_copy(update={"states": {"a": state}}), rounds))
    lines = text.splitlines()
    start = lines.index("Largest and mean packet received by server:vxlan0, bytes; retransmits")
    assert lines[start + 2].split() == ["a", "65270,", "65270;", "0", "130454,", "130454;", "0"]


def vxlan_received(record):
    size = 65270 if record.kernel == OLD else 130454
    return packets("server:vxlan0", "rx", {size: 9})


def test_ci_formats_tell_a_state_the_reason_of_its_own_kernel():
    rounds = kernels_rounds(boots=1)
    reasons = {OLD: "the old one", NEW: "the new one"}
    rounds += [
        made_round(number, "a", 9, None, kernel=kernel, valid=False, reason=reasons[kernel])
        for number, kernel in enumerate((OLD, NEW, OLD), start=100)
    ]
    report = make_report(kernels_run(status="interrupted"), rounds)
    assert [(one.state, one.reason) for one in report.data.invalid] == [
        (f"a@{OLD}", "the old one"),
        (f"a@{NEW}", "the new one"),
        (f"a@{OLD}", "the old one"),
    ]
    junit = ElementTree.fromstring(junit_report(report))
    told = {case.get("name"): case.find("failure").get("message") for case in junit.iter("testcase")}
    assert told[f"state a@{OLD}"].endswith("last invalid round: the old one")
    assert told[f"state a@{NEW}"].endswith("last invalid round: the new one")
    ktap = ktap_report(report).splitlines()
    for kernel, reason in reasons.items():
        (at,) = (index for index, line in enumerate(ktap) if line.endswith(f"state a@{kernel}"))
        assert ktap[at - 1].endswith(f"last invalid round: {reason}")
