"""Stacks, profiles, TCP, cores and noise in the reports."""

import pytest
from made_rounds import made_round, made_run, made_state

from testbed.analysis.report import make_report
from testbed.records.round import CoreUse, Cpu, Noise, PacketSizesMeta, ProcessUse, Profile, Stack, Tcp
from testbed.reports.html import html_report
from testbed.reports.markdown import markdown_report
from testbed.reports.text import text_report

RECEIVE = ["__netif_receive_skb_core", "napi_gro_complete", "veth_poll"]
SEND = ["dev_hard_start_xmit", "vxlan_xmit_one", "tcp_write_xmit"]
NET = CoreUse(user=0.01, system=0.08, idle=37.75, irq=3.87, softirq=58.26)
APP = CoreUse(user=0.06, system=19.48, idle=77.23, irq=1.19, softirq=2.02)


def evidence_round(number, state, copying):
    return made_round(
        number,
        state,
        number // 2,
        stacks=[
            Stack(device="vxlan0", direction="rx", samples=5, largest=129_556, frames=RECEIVE),
            Stack(device="vxlan0", direction="tx", samples=2 + number, largest=129_556, frames=SEND),
            Stack(device="vxlan0", direction="tx", samples=1, largest=131_000, frames=SEND[:2]),
        ],
        profile=Profile(samples=100, functions={"copy_user": copying, "tcp_write_xmit": 8.0}),
        cpu=Cpu(net=NET, app=APP, processes={"testbed": ProcessUse(user_s=0.01, system_s=0.02)}),
        tcp=Tcp(rtt_us=556, rttvar_us=3, snd_cwnd=7650, snd_wnd=15499264, snd_mss=4148),
        noise=Noise(cpu_pressure=2.5, steal=0.1, foreign=12.0),
        packet_sizes_meta=PacketSizesMeta(
            collector="bpf", rules={"server:veth0 rx": f"{number + 1} dropped after they were seen"}
        ),
    )


@pytest.fixture(scope="module")
def report():
    rounds = [evidence_round(n, "ab"[n % 2], 40.0 if n % 2 == 0 else 10.0 + n) for n in range(4)]
    return make_report(made_run({"a": made_state(), "b": made_state(nodelay=True)}), rounds)


def test_stacks_are_summed_over_rounds_the_most_frequent_first(report):
    held = report.data.stacks["a"]
    assert [(one.samples, one.largest) for one in held] == [(10, 129_556), (6, 129_556), (2, 131_000)]
    assert held[0].frames == RECEIVE


def test_functions_are_ordered_by_how_much_two_states_differ(report):
    (one,) = report.data.profiles
    assert [(held.function, held.a, held.b) for held in one.functions] == [
        ("copy_user", 40.0, 12.0),
        ("tcp_write_xmit", 8.0, 8.0),
    ]


def test_the_text_has_a_line_for_each_kind_of_evidence(report):
    lines = text_report(report).splitlines()
    for line in (
        "TCP rtt/rttvar us: 556/3",
        "TCP snd_cwnd/snd_wnd/snd_mss: 7650/15499264/4148",
        "net CPU usr/sys/idle/iow/irq/sirq: 0.01/0.08/37.75/0/3.87/58.26",
        "app CPU usr/sys/idle/iow/irq/sirq: 0.06/19.48/77.23/0/1.19/2.02",
        "noise: CPU pressure 2.5%, steal 0.1%, other processes 12.0%",
        "testbed itself, CPU s a round: 0.030",
        "  copy_user       40.00  12.00  -28.00",
        "  __netif_receive_skb_core < napi_gro_complete < veth_poll",
    ):
        assert line in lines
    assert lines.count("  " + " < ".join(SEND)) == 1
    assert "Stack at vxlan0 tx (a, b): len 129556 at most, 6 of 8 samples:" in lines


def test_rules_that_differ_in_their_number_only_are_one(report):
    assert report.data.rules == ["server:veth0 rx: packets dropped after they were seen"]
    assert "packets dropped after they were seen (server:veth0 rx)" in " ".join(text_report(report).split())


@pytest.mark.parametrize("maker", [markdown_report, html_report])
def test_the_other_formats_show_the_same(report, maker):
    text = maker(report).replace("\\", "").replace("&lt;", "<")
    for part in ("vxlan_xmit_one", "copy_user", "0.06/19.48/77.23/0/1.19/2.02", "12.0%", "packets dropped"):
        assert part in text


def test_a_run_without_such_evidence_says_nothing_of_it():
    text = text_report(make_report(made_run({"a": made_state()}), [made_round(0, "a", 0)]))
    assert not any(
        word in text for word in ("Stack", "Functions", "noise", "TCP rtt", "against the counters")
    )


def test_cores_that_are_the_same_are_one_line():
    record = made_round(0, "a", 0, cpu=Cpu(net=APP, app=APP))
    lines = text_report(make_report(made_run({"a": made_state()}), [record])).splitlines()
    assert "net, app CPU usr/sys/idle/iow/irq/sirq: 0.06/19.48/77.23/0/1.19/2.02" in lines
    assert sum("usr/sys" in line for line in lines) == 1
