"""How long a topology takes to build and to take down, against `ip` and against pyroute2's NetNS objects.

A ring of nodes, as many veth pairs, each end with an MTU, GSO and GRO limits, an
IPv4 and an IPv6 address, and up. The methods take turns in random order; a
figure is the ratio of two in the same turn, as geometric mean with its 95%
t interval. `build` is a lab held by this process, `up` a named, marked and
journalled one, which is what `ip` makes (without mark and journal).

Every lab is read back before its time ends; the others check nothing. Taking
down ends when the kernel has let go of every device. `read back` reads every
device and address of the 100 namespaces once more, `ip` by `link show` and
`address show`. `change of state` is what happens between two rounds: MTU,
limits and offloads of both ends of a pair, read back; `ip` and `ethtool` check
nothing there either.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from testbed.lab import named
from testbed.lab.lab import open_lab
from testbed.netlink import message
from testbed.nodes.namespace import NamespaceNode
from testbed.stats.summary import t_interval
from testbed.topology.loading import parse_topology
from testbed.topology.spec import Topology

NODES, MANY = 100, 1000
MTU, LIMIT = 1500, 200_000
CHANGE_MS, MEMORY_MB = 10, 200
NAME = f"bench{os.getpid()}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--turns", type=int, default=7, help="turns of the quick methods")
    arguments.add_argument("--slow-turns", type=int, default=2, help="turns of the slow methods, at least 2")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    random.seed(options.seed)
    times = measure(options.turns, options.slow_turns)
    good = [
        figure("build 100 nodes / ip -batch", times["build"], times["ip -batch"], at_most=0.6),
        figure("up 100 nodes / ip -batch", times["up"], times["ip -batch"], at_most=0.9, below=1.0),
        figure("build 100 nodes / ip per command", times["build"], times["ip per command"], at_most=1.0),
        figure("build 100 nodes / pyroute2 NetNS", times["build"], times["pyroute2 NetNS"], at_most=1.0),
        figure("build 1000 nodes / build 100 nodes", times["build 1000"], times["build"], at_most=12.0),
        figure("down 100 nodes / ip netns del", times["down"], times["ip netns del"]),
        figure("read back 100 nodes / ip show", times["read back"], times["ip show"], at_most=0.5),
        figure(
            "change of state / ip and ethtool", times["change of state"], times["changed by ip"], at_most=1.0
        ),
    ]
    milliseconds = statistics.median(times["change of state"]) * 1000
    megabytes = peak_memory()
    print(f"change of state on a live veth pair: {milliseconds:.1f} ms, at most {CHANGE_MS}")
    print(f"peak memory of 1000 nodes: {megabytes:.0f} MB, at most {MEMORY_MB}")
    print(f"load of this machine meanwhile: {os.getloadavg()[1]:.1f}")
    return 0 if all(good) and milliseconds <= CHANGE_MS and megabytes <= MEMORY_MB else 1


def measure(turns: int, slow_turns: int) -> dict[str, list[float]]:
    """Seconds of each method, turn by turn."""
    small, large = ring(NODES), ring(MANY)
    times: dict[str, list[float]] = {}
    quick: dict[str, Callable[[], dict[str, float]]] = {
        "build": lambda: timed_lab("build", small),
        "build 1000": lambda: timed_lab("build 1000", large),
        "up": lambda: timed_up(small),
        "ip -batch": lambda: timed_ip(batched=True),
        "change of state": timed_changes,
        "changed by ip": timed_changes_by_ip,
    }
    slow: dict[str, Callable[[], dict[str, float]]] = {
        "ip per command": lambda: timed_ip(batched=False),
        "pyroute2 NetNS": timed_pyroute2,
    }
    for turn in range(turns):
        methods = quick | (slow if turn < slow_turns else {})
        for name in random.sample(list(methods), len(methods)):
            for what, seconds in methods[name]().items():
                times.setdefault(what, []).append(seconds)
        print(f"turn {turn + 1} of {turns}", file=sys.stderr)
    for what, turns_of in times.items():
        print(f"{what}: median {statistics.median(turns_of):.3f} s of {len(turns_of)}")
    return times


def figure(
    name: str, ours: list[float], theirs: list[float], *, at_most: float = math.inf, below: float = math.inf
) -> bool:
    """Print the ratio of the turns that both have; whether it is `at_most` and its interval `below`."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=False)]
    mean, sd = statistics.fmean(logs), statistics.stdev(logs)
    low, high = t_interval(n=len(logs), mean=mean, sd=sd)
    print(f"{name}: {math.exp(mean):.2f}x [{math.exp(low):.2f}, {math.exp(high):.2f}]")
    return math.exp(mean) <= at_most and math.exp(high) < below


def ends(nodes: int) -> list[tuple[int, str, int, str, int]]:
    """(node, device, network, host part, peer) of both ends of every pair."""
    pairs = [(number, (number + 1) % nodes) for number in range(nodes)]
    return [
        end
        for number, (left, right) in enumerate(pairs)
        for end in ((left, "right", number, "1", right), (right, "left", number, "2", left))
    ]


def addresses(network: int, host: str) -> tuple[str, str]:
    return f"10.{network // 250}.{network % 250}.{host}/24", f"fd00:{network:x}::{host}/64"


def ring(nodes: int) -> Topology:
    spec: dict[str, dict[str, dict[str, object]]] = {f"n{i}": {"devices": {}} for i in range(nodes)}
    for node, device, network, host, peer in ends(nodes):
        link = {"kind": "veth", "peer": f"n{peer}:left"} if device == "right" else {}
        sizes = {"mtu": MTU, "gso_max_size": LIMIT, "gro_max_size": LIMIT}
        spec[f"n{node}"]["devices"][device] = {**link, **sizes, "addresses": addresses(network, host)}
    return parse_topology(json.dumps({"nodes": spec}))


def timed_lab(name: str, topology: Topology) -> dict[str, float]:
    start = time.perf_counter()
    lab = open_lab(topology)
    built = time.perf_counter()
    lab.read_back()
    read = time.perf_counter()
    lab.close()
    wait_until_gone()
    return {name: built - start, "read back" if name == "build" else f"read back {name}": read - built}


def timed_up(topology: Topology) -> dict[str, float]:
    start = time.perf_counter()
    named.bring_up(topology, NAME, "")
    built = time.perf_counter()
    named.take_down(NAME)
    wait_until_gone()
    return {"up": built - start, "down": time.perf_counter() - built}


# MTU, GSO and GRO limit, TSO, GRO.
STATES = ((9000, 524280, False, True), (1500, 65536, True, False))


def timed_changes() -> dict[str, float]:
    """Both ends from one of STATES to the other and back, read back; seconds of one change."""
    states = [
        {"mtu": mtu, "gso_max_size": size, "gro_max_size": size, "features": {"tso": tso, "gro": gro}}
        for mtu, size, tso, gro in STATES
    ]
    with open_lab("veth-pair") as lab:
        start = time.perf_counter()
        for state in states * 5:
            lab.set({"*:veth0": state})
        seconds = time.perf_counter() - start
    return {"change of state": seconds / (5 * len(states))}


def timed_changes_by_ip() -> dict[str, float]:
    """The same changes, not read back; seconds of one."""
    namespaces = [f"{NAME}-{end}" for end in ("client", "server")]
    near, far = namespaces
    batch([], [f"netns add {namespace}" for namespace in namespaces])
    batch([], [f"link add veth0 netns {near} type veth peer name veth0 netns {far}"])
    start = time.perf_counter()
    for mtu, size, tso, gro in STATES:
        onoff = [word for name, on in (("tso", tso), ("gro", gro)) for word in (name, "on" if on else "off")]
        limits = ["mtu", str(mtu), "gso_max_size", str(size), "gro_max_size", str(size)]
        for namespace in namespaces:
            subprocess.run(["ip", "-n", namespace, "link", "set", "veth0", *limits], check=True)
            command = ["ip", "netns", "exec", namespace, "ethtool", "-K", "veth0", *onoff]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    batch([], [f"netns del {namespace}" for namespace in namespaces])
    wait_until_gone()
    return {"changed by ip": seconds / len(STATES)}


def timed_ip(*, batched: bool) -> dict[str, float]:
    host, inside = ip_commands()
    start = time.perf_counter()
    if batched:
        batch([], host)
        for namespace, commands in inside.items():
            batch(["-n", namespace], commands)
    else:
        for command in host:
            subprocess.run(["ip", *command.split()], check=True)
        for namespace, commands in inside.items():
            for command in commands:
                subprocess.run(["ip", "-n", namespace, *command.split()], check=True)
    built = read = time.perf_counter()
    if batched:
        for namespace in inside:
            batch(["-details", "-n", namespace], ["link show", "address show"])
        read = time.perf_counter()
    batch([], [f"netns del {namespace}" for namespace in inside])
    wait_until_gone()
    if not batched:
        return {"ip per command": built - start}
    return {"ip -batch": built - start, "ip show": read - built, "ip netns del": time.perf_counter() - read}


def ip_commands() -> tuple[list[str], dict[str, list[str]]]:
    """What `ip` does from outside, and in each namespace."""
    inside: dict[str, list[str]] = {f"{NAME}-{i}": ["link set lo up"] for i in range(NODES)}
    host = [f"netns add {namespace}" for namespace in inside]
    for node, device, network, number, peer in ends(NODES):
        namespace = f"{NAME}-{node}"
        if device == "right":
            host.append(
                f"link add right netns {namespace} mtu {MTU} type veth "
                f"peer name left netns {NAME}-{peer} mtu {MTU}"
            )
        ipv4, ipv6 = addresses(network, number)
        inside[namespace] += [
            f"link set {device} gso_max_size {LIMIT} gro_max_size {LIMIT}",
            f"address add {ipv4} dev {device}",
            f"address add {ipv6} dev {device} nodad",
            f"link set {device} up",
        ]
    return host, inside


def batch(options: list[str], commands: list[str]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".batch") as file:
        file.write("\n".join(commands) + "\n")
        file.flush()
        subprocess.run(["ip", *options, "-batch", file.name], check=True, stdout=subprocess.DEVNULL)


def timed_pyroute2() -> dict[str, float]:
    from pyroute2 import NetNS, netns
    from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD

    names = [f"{NAME}-{i}" for i in range(NODES)]
    start = time.perf_counter()
    spaces = [NetNS(name, flags=os.O_CREAT) for name in names]
    for node, peer in ((i, (i + 1) % NODES) for i in range(NODES)):
        other = {"ifname": "left", "net_ns_fd": names[peer], "mtu": MTU}
        spaces[node].link("add", ifname="right", kind="veth", mtu=MTU, peer=other)
    for node, device, network, number, _ in ends(NODES):
        space = spaces[node]
        index = space.link_lookup(ifname=device)[0]
        space.link("set", index=index, gso_max_size=LIMIT, gro_max_size=LIMIT)
        for address in addresses(network, number):
            plain, _, prefix = address.partition("/")
            flags = {"flags": IFA_F_NODAD} if ":" in plain else {}
            space.addr("add", index=index, address=plain, prefixlen=int(prefix), **flags)
        space.link("set", index=index, state="up")
    seconds = time.perf_counter() - start
    for name, space in zip(names, spaces, strict=True):
        space.close()
        netns.remove(name)
    wait_until_gone()
    return {"pyroute2 NetNS": seconds}


def wait_until_gone() -> None:
    """Return when the kernel has removed the devices of every namespace let go of before.

    Namespaces are cleaned up in the order in which they went: one that goes now
    takes its end of a pair along after all others have lost theirs.
    """
    stays, goes = NamespaceNode.make("stays"), NamespaceNode.make("goes")
    far = message.LinkEnd("v", 3, namespace=goes.namespace)
    stays.channel.send([message.new_link(message.LinkEnd("v", 2), "veth", peer=far)])
    goes.close()
    while len(stays.channel.dump(message.list_links())) > 1:
        time.sleep(0.0005)
    stays.close()


def peak_memory() -> float:
    """Megabytes of a fresh process that builds the large ring."""
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import bench_build; bench_build.report_own_peak()"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return float(ended.stdout)


def report_own_peak() -> None:
    with open_lab(ring(MANY)):
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    sys.exit(main())
