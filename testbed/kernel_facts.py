"""What differs between Linux releases, in one table: every other place refers to a fact here by its name.

A fact that can be found by trying is: `probe` says how, and its release is only what to expect. The
others go by the kernel's release. docs/reference/kernel-facts.md shows the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.versions import version_key


@dataclass(frozen=True)
class Fact:
    """Something that kernels from `since` on and before `until` do (None: all earlier, all later ones)."""

    what: str
    source: str
    since: str | None = None
    until: str | None = None
    probe: str | None = None

    def holds(self, release: str) -> bool:
        """Whether a kernel of this release does it, by the release alone."""
        has = version_key(release)
        begun = self.since is None or has >= version_key(self.since)
        return begun and (self.until is None or has < version_key(self.until))

    @property
    def releases(self) -> str:
        """`from 7.3`, `before 7.0`, `all`."""
        since = f"from {self.since}" if self.since else ""
        until = f"before {self.until}" if self.until else ""
        return " ".join(filter(None, (since, until))) or "all"


FACTS = {
    "jumbo_option": Fact(
        "IPv6 TCP packets above 65535 bytes carry an 8-byte hop-by-hop jumbo option (RFC 2675)",
        "measured: sizes on 6.18 are 8 larger than on 7.2 and 7.3 (ipv6_gso_segment, ip6_xmit)",
        until="7.0",
    ),
    "big_tunnels": Fact(
        "vxlan and geneve carry BIG TCP, and a vxlan without a lower device has a tso_max_size of 524280",
        "measured: 7.2.12 loses what does not fit the 16-bit UDP length, 7.3.4 carries it",
        since="7.3",
        probe="vxlan.tso_max_size",
    ),
    "ipv4_limits": Fact(
        "gso_ipv4_max_size and gro_ipv4_max_size, and with them IPv4 packets above 65536 bytes",
        "IFLA_GSO_IPV4_MAX_SIZE in include/uapi/linux/if_link.h",
        since="6.3",
        probe="the attribute is there when a device is read back",
    ),
    "veth_max_mtu": Fact(
        "a veth takes an MTU of at most 65535; a series for jumbograms raises it",
        "ETH_MAX_MTU in drivers/net/veth.c; measured up to 7.3.4",
        probe="veth.max_mtu",
    ),
    "rdonly_cast": Fact(
        "BPF programs read kernel structures by bpf_rdonly_cast, and by bpf_probe_read_kernel before",
        "kernel/bpf/helpers.c",
        since="6.2",
        probe="the kernel's BTF names it",
    ),
    "tap_uso": Fact(
        "a TAP segments UDP (TUN_F_USO4, TUN_F_USO6)",
        "include/uapi/linux/if_tun.h",
        since="6.2",
        probe="TUNSETOFFLOAD",
    ),
    "cgroup_kill": Fact(
        "cgroup.kill ends all processes of a cgroup at once",
        "Documentation/admin-guide/cgroup-v2.rst",
        since="5.14",
        probe="the file is there",
    ),
    "bpf_recursion_misses": Fact(
        "a BPF program tells how many of its runs recursion kept back",
        "struct bpf_prog_info in include/uapi/linux/bpf.h",
        since="5.12",
        probe="the kernel fills the field",
    ),
    "bpf_stats": Fact(
        "the kernel counts the runs of BPF programs and their time while somebody asks (BPF_ENABLE_STATS)",
        "include/uapi/linux/bpf.h",
        since="5.8",
        probe="the command itself",
    ),
    "bpf_lookup_batch": Fact(
        "every entry of a BPF hash by one system call (BPF_MAP_LOOKUP_BATCH)",
        "include/uapi/linux/bpf.h",
        since="5.6",
        probe="the command itself",
    ),
}


def table() -> list[tuple[str, str, str, str]]:
    """Rows for people: the fact, its releases, how it is found here, and its source."""
    return [
        (fact.what, fact.releases, fact.probe or "by the release", fact.source) for fact in FACTS.values()
    ]
