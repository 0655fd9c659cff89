"""Words that a file adds to a tool's command line: which pass, and what is said of the others."""

import getopt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.workloads import parse_options
from testbed.workloads.arguments import Grammar, Refused
from testbed.workloads.iperf3_arguments import CLIENT, SERVER
from testbed.workloads.kperf_arguments import CLIENT as KPERF
from testbed.workloads.netperf_arguments import CLASSIC_TEST, GLOBAL, TEST
from testbed.workloads.tool import Options

GRAMMARS = {
    "iperf3": CLIENT,
    "iperf3 -s": SERVER,
    "netperf": GLOBAL,
    "netperf --": TEST,
    "netperf -t TCP_SENDFILE --": CLASSIC_TEST,
    "kperf": KPERF,
}


def refusal(grammar: Grammar, *words: str) -> str | None:
    try:
        grammar.check(words)
    except Refused as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("tool", "words", "said"),
    [
        # A long name cut short, a value joined to its letter, a flag in front of another.
        ("iperf3", "--logf=/etc/passwd", "--logf may stand for --logfile, which writes a file"),
        ("iperf3", "--pidf /etc/passwd", "--pidf may stand for --pidfile, which writes a file"),
        ("iperf3", "-I/etc/passwd", "-I writes a file"),
        ("iperf3", "-F /etc/shadow", "-F writes what arrives into a file"),
        ("iperf3 -s", "-sD", "-s is said by the node that `to` names"),
        ("iperf3 -s", "--daem", "--daem may stand for --daemon, which leaves the lab"),
        ("iperf3", "-p5300", "-p is set by the key 'port'"),
        ("iperf3", "-6A1", "-6 is set by the key 'family'"),
        ("iperf3", "--affinity=1", "--affinity is set by the key 'cpus'"),
        ("iperf3", "--dscp cs1 -n1G", "-n would end the test by something else than `duration`"),
        ("iperf3", "-k 10", "-k would end the test"),
        ("iperf3", "-f k", "-f changes the output"),
        ("iperf3", "-B example.com", "-B takes an address, got 'example.com'"),
        ("iperf3", "--dscp", "--dscp needs a value"),
        ("iperf3", "--dont-fragment=1", "--dont-fragment takes no value"),
        ("iperf3", "--extra x", "write --extra-data in full"),
        ("iperf3", "--nosuch", "has no option --nosuch that is known here"),
        ("iperf3", "-- -D", "not an option"),
        ("iperf3", "file", "not an option"),
        ("iperf3 -s", "--server-max-duration 1", "--server-max-duration would end the test"),
        ("netperf", "-I99,1", "-I repeats the test: packets and CPU would be of all repetitions"),
        ("netperf", "-j -i 3,2", "-i repeats the test"),
        ("netperf", "-D1", "-D asks for the time again and again"),
        ("netperf", "-Sl5", "-l is set by the key 'duration'"),
        ("netperf", "-fK", "-f changes the output"),
        ("netperf", "-H example.com", "-H is set by the key 'address'"),
        ("netperf", "-Ffile", "-F reads a file"),
        ("netperf", "-T0,1", "-T is set by the key 'cpus'"),
        # -a takes the next word whatever it is: here it would be the `--` before the test's options.
        ("netperf", "-a", "-a needs a value"),
        ("netperf --", "-Hexample.com", "-H names another address than the lab's"),
        ("netperf --", "-k /etc/shadow", "-k changes the output"),
        ("netperf --", "-Cc", "-c changes the kind of test"),
        ("netperf --", "-p 1,9", "-p chooses other ports"),
        ("netperf -t TCP_SENDFILE --", "-F", "has no option -F that is known here"),
        ("kperf", "--dst-ifname=eth0", "--dst-ifname changes interrupts and queues of the machine"),
        ("kperf", "-t5", "-t is set by the key 'duration'"),
        ("kperf", "--time 5", "--time is set by the key 'duration'"),
    ],
)
def test_what_a_file_may_not_say(tool, words, said):
    assert said in refusal(GRAMMARS[tool], *words.split())


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("iperf3", "--dscp cs1 -L7 --get-server-output --extra-data=-D"),
        ("iperf3", "-T -D --snd-timeout 1000"),  # a title that looks like an option
        ("iperf3", "-B fe80::1%veth0 -m"),
        ("iperf3 -s", "--server-bitrate-limit 1M/2 --bind-dev veth0"),
        ("netperf", "-a 8,8 -SjY 0x10,0x10"),
        ("netperf --", "-nN -R1 -C"),
        ("kperf", "--tls --max-pace=1000 -M 1400"),
    ],
)
def test_what_a_file_may_say(tool, words):
    assert refusal(GRAMMARS[tool], *words.split()) is None


WORDS = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.text(alphabet="-cCdDFIpTPlfnkB1=,/a", max_size=6).map("-".__add__),
        st.sampled_from([name for grammar in GRAMMARS.values() for name in grammar.options]).flatmap(
            lambda name: st.sampled_from([name, f"{name}=x", f"{name}x", name[: max(2, len(name) - 2)]])
        ),
    ),
    max_size=4,
)


@pytest.mark.parametrize("tool", GRAMMARS)
@given(words=WORDS)
def test_getopt_finds_in_what_passes_only_what_a_file_may_say(tool, words):
    """Python's getopt reads words as the C library's does: the same letters, joined values, prefixes."""
    grammar = GRAMMARS[tool]
    if refusal(grammar, *words) is not None:
        return
    short, long = declaration(grammar)
    found, operands = getopt.getopt(words, short, long)
    assert operands == []
    assert all(grammar.options[name].refusal is None for name, _ in found)


def declaration(grammar: Grammar) -> tuple[str, list[str]]:
    """The table as getopt wants it; what is refused takes no value, so that it stands out."""
    takes = {name: option.value is not None for name, option in grammar.options.items()}
    short = "".join(f"{name[1]}{':' * value}" for name, value in takes.items() if name[1] != "-")
    return short, [f"{name[2:]}{'=' * value}" for name, value in takes.items() if name[1] == "-"]


KEYS = [
    *("address", "args", "server_args", "test_args", "congestion", "bind_device", "length", "window"),
    *("bitrate", "timeout", "interval", "port", "request", "streams", "pacing_timer", "tos", "burst"),
    *("duration", "omit"),
]


@given(
    tool=st.sampled_from(["iperf3", "netperf", "kperf", "zerocopy"]),
    keys=st.dictionaries(
        st.sampled_from(KEYS),
        st.one_of(st.text(max_size=9), st.integers(), st.floats(), WORDS, st.none(), st.just("9" * 5000)),
    ),
)
def test_options_are_refused_in_one_line_or_are_words_for_a_command_line(tool, keys):
    options = parsed_or_refused({"tool": tool, "from": "client", "to": "server", **keys})
    if isinstance(options, str):
        assert options.startswith("workload.")
        assert "\n" not in options
        return
    for value in options.model_dump().values():
        for word in value if isinstance(value, list) else [value]:
            assert b"\0" not in str(word).encode()
            assert len(str(word)) < 300


def parsed_or_refused(raw: dict[str, object]) -> Options | str:
    try:
        return parse_options(raw)
    except InputError as error:
        return str(error)
