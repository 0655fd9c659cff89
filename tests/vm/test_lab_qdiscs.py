"""The qdiscs that lean kernels lack, on a stock one: requested, made, and read back."""

from __future__ import annotations

import json
import sys

SCRIPT = """
import json, sys
from testbed.lab.lab import open_lab
from testbed.topology.loading import parse_topology
TEXT = "nodes: {client: {devices: {veth0: {kind: veth, peer: 'server:veth0', qdisc: %s}}}, server: {}}"
for line in sys.argv[1:]:
    with open_lab(parse_topology(TEXT % line)) as lab:
        actual = lab.read_back()["client:veth0"]
        print(json.dumps([actual["qdisc"], actual["qdisc_options"]]), flush=True)
"""


def test_netem_fq_and_fq_codel_have_the_requested_values(guest):
    requested = {
        "{kind: netem, delay: 10ms, jitter: 1ms, loss: 0.5%, rate: 1gbit, limit: 5000}": (
            "netem",
            {"limit": 5000, "loss": 21474836, "delay": 10_000_000, "jitter": 1_000_000, "rate": 125_000_000},
        ),
        "{kind: netem, rate: 100gbit}": ("netem", {"rate": 12_500_000_000}),
        "{kind: fq, limit: 20000, flow_limit: 200, maxrate: 1gbit}": (
            "fq",
            {"limit": 20000, "flow_limit": 200, "maxrate": 125_000_000},
        ),
        "{kind: fq_codel, target: 5ms, interval: 100ms, ecn: on, limit: 1024}": (
            "fq_codel",
            {"limit": 1024, "ecn": 1, "interval": 99_999},
        ),
    }
    result = guest.run([sys.executable, "-c", SCRIPT, *requested], timeout=120)
    assert result.status == 0, result.stderr.read_text()
    lines = [json.loads(line) for line in result.stdout.read_text().splitlines()]
    for (kind, options), (actual_kind, actual_options) in zip(requested.values(), lines, strict=True):
        assert actual_kind == kind
        assert {name: actual_options[name] for name in options} == options
