"""Files that somebody else wrote, given to the command line: nothing outside the lab is read or written."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.lab.lab import open_lab
from testbed.nodes.sysctl_files import read_sysctl
from testbed.topology.loading import parse_topology

DOTTED = """nodes:
  a:
    devices:
      eth0.100: {kind: veth, peer: b:eth0}
    sysctls: {net/ipv4/conf/eth0.100/forwarding: 1}
  b:
    sysctls: {net.ipv4.conf.eth0.forwarding: 1}
"""


def command(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "testbed", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, **options)


def test_sysctls_of_a_device_with_a_dot_and_of_a_mere_peer_are_set():
    before = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    with open_lab(parse_topology(DOTTED)) as lab:
        assert lab.nodes["a"].call(read_sysctl, "net/ipv4/conf/eth0.100/forwarding") == "1"
        assert lab.nodes["a"].call(read_sysctl, "net.ipv4.conf.all.forwarding") == "0"
        assert lab.nodes["b"].call(read_sysctl, "net.ipv4.conf.eth0.forwarding") == "1"
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == before


@pytest.mark.parametrize("name", ["check", "plan", "up"])
def test_a_sysctl_that_is_a_path_writes_no_file(tmp_path, name):
    victim = tmp_path / "victim"
    file = tmp_path / "t.yaml"
    file.write_text(f"nodes:\n  a:\n    sysctls:\n      net.{victim}: 1\n")
    ended = command(name, str(file))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"testbed: {file}:4: nodes.a.sysctls.net.{victim}: ")
    assert not victim.exists()


def test_an_experiments_sysctl_is_checked_as_a_topologys(tmp_path):
    file = tmp_path / "e.yaml"
    file.write_text(
        "topology: veth-pair\nworkload: {tool: iperf3, from: client, to: server}\n"
        "sysctls:\n  client:\n    kernel.core_pattern: '|/bin/sh'\n"
    )
    ended = command("run", str(file), "--results", str(tmp_path / "results"))
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"testbed: {file}:5: sysctls.client.kernel.core_pattern: ")
    assert not (tmp_path / "results").exists()
