"""Options allowed in `args` and `test_args` of netperf 2.7 (src/netsh.c, src/nettest_omni.c). Pure."""

from __future__ import annotations

from testbed.workloads.arguments import Grammar, flag, key, refused, valued

_OUTPUT = "changes the output, of which the lines KEY=value are read here"
_REPEATS = (
    "repeats the test: packets and CPU would be of all repetitions, the rate of one; "
    "`protocol` says how many rounds, and how narrow an interval"
)
_CPU = "measures the CPU, as every round does (`collect.cpu`)"
_SOURCE = "names another address than the lab's"
_SORT = "changes the kind of test, which is the key 'test'"
_PORTS = "chooses other ports than the keys 'port' and 'client_port'"
_NOT_BUILT = "is not compiled into Debian's netperf, and does nothing"

GLOBAL = Grammar(
    "netperf",
    [
        key("address", "-H"),
        key("control_port", "-p"),
        key("test", "-t"),
        key("duration", "-l"),
        key("family", "-4", "-6"),
        key("cpus", "-T", "-n"),
        refused(_SOURCE, "-L"),
        refused(_REPEATS, "-i", "-I", "-r"),
        refused("waits between set-up and test: the evidence would begin before the test", "-s"),
        refused("sends without a server that says what arrived", "-N"),
        refused("asks for the time again and again, and prints in between", "-D"),
        refused("reads a file", "-F"),
        refused("needs a netserver with a passphrase", "-Z"),
        refused(_CPU, "-c", "-C"),
        refused(_OUTPUT, "-P", "-f", "-v", "-d", "-B"),
        refused("prints something and ends", "-h", "-V"),
        refused(_NOT_BUILT, "-b", "-w", "-k", "-K"),
        valued("-a"),
        valued("-A"),
        valued("-o"),
        valued("-O"),
        valued("-W"),
        valued("-y"),
        valued("-Y"),
        flag("-j"),
        flag("-S"),
    ],
)

_COMMON = [
    key("port", "-P"),
    key("family", "-4", "-6"),
    key("length", "-m"),
    key("receive_length", "-M"),
    key("window", "-s", "-S"),
    key("request", "-r"),
    key("nodelay", "-D"),
    refused(_SOURCE, "-H", "-L"),
    refused(_PORTS, "-p"),
    refused("prints something and ends", "-h", "-V"),
    refused(_NOT_BUILT, "-w", "-W", "-z"),
    valued("-R"),
    flag("-C"),
    flag("-n"),
    flag("-N"),
]

TEST = Grammar(
    "a test of netperf",
    [
        *_COMMON,
        key("congestion", "-K"),
        refused(_OUTPUT, "-k", "-o", "-O", "-j"),
        refused(_SORT, "-c", "-d", "-t", "-T", "-G", "-U", "-I"),
        key("burst", "-b"),
        refused("is not documented by netperf", "-a", "-B", "-e", "-f", "-g", "-i", "-l", "-q"),
        valued("-u"),
        flag("-F"),
    ],
)

# TCP_SENDFILE is one of the old tests, with options of its own (scan_sockets_args in src/nettest_bsd.c).
CLASSIC_TEST = Grammar("TCP_SENDFILE", [*_COMMON, refused(_SORT, "-b", "-T")])
