"""Tables of published cover letters, made again from rounds that hold their figures."""

from made_rounds import made_round, made_run, made_state, packets
from msgspec.structs import replace

from testbed.analysis.report import make_report
from testbed.records.round import CoreUse, Cpu, Tcp, Workload
from testbed.reports.layouts import before_after, gain_grid, sender_fields, table_report


def axis(values):
    return {value: {} for value in values}


def grid_report(tool, axes, compared, figures):
    """A matrix experiment with one round a state: state -> bits a second."""
    states = {name: made_state() for name in figures}
    for state in states.values():
        state["workload"]["tool"] = tool
    experiment = {"name": "made", "matrix": {"axes": axes}, "compare": compared}
    rounds = [made_round(i, name, 0, bits) for i, (name, bits) in enumerate(figures.items())]
    return make_report(made_run(states, experiment=experiment), rounds)


def test_big_tcp_over_vxlan_off_and_on_with_the_gain():
    """ "vxlan: enable BIG TCP packets", net-next, July 2026: netperf TCP_STREAM."""
    rows = {
        "MTU 1500, hardware tunnel offload": (34440.00, 39564.78, "14.9%"),
        "MTU 8k, hardware tunnel offload": (55684.26, 61466.47, "10.4%"),
        "MTU 1500, tunnel offload off": (21820.82, 29390.78, "34.7%"),
    }
    columns = ("BIG TCP off", "BIG TCP on")
    axes = {"underlay and offload": axis(rows), "big tcp": axis(columns)}
    figures = {
        f"{row}-{column}": bits * 1e6
        for row, values in rows.items()
        for column, bits in zip(columns, values[:2], strict=True)
    }
    compared = [[f"{row}-{columns[0]}", f"{row}-{columns[1]}"] for row in rows]
    grid = gain_grid(grid_report("netperf", axes, compared, figures))
    assert grid is not None
    assert list(grid.header) == ["underlay and offload", "BIG TCP off", "BIG TCP on", "gain"]
    assert grid.rows == [
        [row, f"{off:.2f} Mbit/s", f"{on:.2f} Mbit/s", gain] for row, (off, on, gain) in rows.items()
    ]


def test_a_64k_hop_in_three_columns():
    """ "net: resegment oversized TCP GSO skbs", net-next, September 2026: iperf3, Gbit/s."""
    columns = ("no BIG TCP", "mixed, no resegmentation", "mixed, resegmented")
    published = {"TCP/IPv4": (51.550, 15.850, 52.617), "TCP/IPv6": (52.050, 15.783, 51.933)}
    axes = {"protocol": axis(published), "path": axis(columns)}
    figures = {
        f"{row}-{column}": bits * 1e9
        for row, values in published.items()
        for column, bits in zip(columns, values, strict=True)
    }
    compared = [[f"{row}-{columns[0]}", f"{row}-{columns[1]}"] for row in published]
    report = grid_report("iperf3", axes, compared, figures)
    assert table_report(report).splitlines() == [
        "Throughput",
        "protocol  no BIG TCP     mixed, no resegmentation  mixed, resegmented",
        "TCP/IPv4  51.550 Gbit/s  15.850 Gbit/s             52.617 Gbit/s",
        "TCP/IPv6  52.050 Gbit/s  15.783 Gbit/s             51.933 Gbit/s",
    ]


def devmem_round(number, state, gbits, system=None):
    """A sender's round as the "devmem: size TX net_iovs" letter prints it, November 2026."""
    after = state == "after"
    frags = {1: 900, 2: 100} if after else {16: 500, 17: 500}
    rows = [
        row
        for nr, count in frags.items()
        for row in packets("client:eth0", "tx", {62006: count}, nr_frags=nr)
    ]
    tcp = (
        Tcp(rtt_us=556, rttvar_us=3, snd_wnd=15499264, snd_cwnd=7650)
        if after
        else Tcp(rtt_us=633, rttvar_us=2, snd_wnd=15556608, snd_cwnd=7657)
    )
    tcp = replace(tcp, reord_seen=0, delivered_ce=0)
    net = (0.01, 0.08, 37.75, 0.00, 3.87, 58.26) if after else (0.01, 0.10, 44.13, 0.00, 3.21, 52.53)
    app = (0.06, 19.48, 77.23, 0.00, 1.19, 2.02) if after else (0.05, 41.55, 53.88, 0.00, 1.40, 3.10)
    if system is not None:
        app = (app[0], system, *app[2:])
    names = ("user", "system", "idle", "iowait", "irq", "softirq")
    cpu = Cpu(
        **{key: CoreUse(**dict(zip(names, use, strict=True))) for key, use in (("net", net), ("app", app))}
    )
    sent, seconds = (1584440279040, 60.004741) if after else (1603901849600, 60.007723)
    workload = Workload(tool="kperf", bits_per_second=gbits * 1e9, bytes=sent, retransmits=0)
    return made_round(
        number, state, number // 2, workload=workload, measured_s=seconds, packet_sizes=rows, tcp=tcp, cpu=cpu
    )


def devmem_report(before, after):
    """Rounds of (Gbit/s, percent of the sending core in the kernel), paired."""
    rounds = []
    for x, y in zip(before, after, strict=True):
        rounds += [devmem_round(len(rounds), "before", *x), devmem_round(len(rounds) + 1, "after", *y)]
    return make_report(made_run({"before": made_state(), "after": made_state()}), rounds)


def test_frags_throughput_and_cpu_before_and_after():
    before = [(205.1, 39.9), (208.6, 41.55), (213.826, 40.8), (209.4, 40.2), (201.9, 41.2)]
    after = [(211.242, 19.48), (211.2, 19.5), (210.8, 19.6), (211.9, 19.5), (211.0, 19.4)]
    table = before_after(devmem_report(before, after), "before", "after")
    assert [list(row) for row in table.rows] == [
        ["frags per skb (client:eth0)", "16-17", "1-2"],
        ["throughput", "208.6 Gb/s", "211.2 Gb/s"],
        ["app CPU (sys)", "40.8%", "19.5% (-52%)"],
        ["net CPU (softirq)", "52.5%", "58.3% (+11%)"],
    ]


def test_the_senders_fields_are_those_of_the_round_nearest_the_median():
    report = devmem_report([(213.826,), (250.0,), (190.0,)], [(211.242,), (250.0,), (190.0,)])
    table = sender_fields(report, "before", "after")
    assert [list(row) for row in table.rows] == [
        [
            "Tx Gbps, bytes, microseconds",
            "213.826, 1603901849600, 60007723",
            "211.242, 1584440279040, 60004741",
        ],
        ["TCP retrans, reord", "0, 0", "0, 0"],
        ["TCP rtt, rttvar", "633, 2", "556, 3"],
        ["d_ce, snd_wnd, cwnd", "0, 15556608, 7657", "0, 15499264, 7650"],
        [
            "net CPU usr/sys/idle/iow/irq/sirq",
            "0.01/0.10/44.13/0.00/3.21/52.53",
            "0.01/0.08/37.75/0.00/3.87/58.26",
        ],
        [
            "app CPU usr/sys/idle/iow/irq/sirq",
            "0.05/41.55/53.88/0.00/1.40/3.10",
            "0.06/19.48/77.23/0.00/1.19/2.02",
        ],
    ]
