"""Experiment files: states, axes, overrides, and what is told about mistakes."""

import pytest

from testbed.errors import InputError
from testbed.experiments.estimate import block_seconds, blocks_within, least_seconds
from testbed.experiments.resolve import Override, ResolvedState, load_experiment, parse_override, shipped
from testbed.experiments.spec import parse_cpus
from testbed.topology.assignment import parse_assignments

HEAD = "topology: veth-pair\nworkload: {tool: iperf3, from: client, to: server, duration: 2, omit: 1}\n"


@pytest.fixture
def load(tmp_path):
    def load(text, **options):
        path = tmp_path / "x.yaml"
        path.write_text(HEAD + text)
        return load_experiment(str(path), **options)

    return load


def test_every_shipped_experiment_resolves():
    assert "nagle" in shipped()
    for name in shipped():
        assert load_experiment(name).states


def test_without_states_there_is_one(load):
    assert list(load("").states) == ["default"]


def test_a_state_goes_over_the_experiment_and_a_wildcard_fits_both_ends(load):
    states = load(
        "settings: {'*:veth0': {mtu: 1500, gso_max_size: 100000}}\n"
        "states:\n  a: {}\n  b: {settings: {'client:veth0': {mtu: 9000}}, workload: {nodelay: true}}\n"
    ).states
    b = states["b"].topology.nodes["client"].devices["veth0"]
    assert (b.mtu, b.gso_max_size) == (9000, 100000)
    assert states["b"].topology.nodes["server"].devices["veth0"].mtu == 1500
    assert states["a"].topology.nodes["client"].devices["veth0"].mtu == 1500
    assert (states["a"].workload.nodelay, states["b"].workload.nodelay) == (False, True)
    assert states["b"].settings["client:veth0"]["mtu"] == 9000


def test_axes_make_their_product_without_the_excluded(load):
    states = load(
        "matrix:\n"
        "  axes:\n"
        "    big-tcp: {on: {settings: {'*:veth0': {gso_max_size: 200000}}}, off: {}}\n"
        "    mtu: {1500: {settings: {'*:veth0': {mtu: 1500}}}, 9000: {settings: {'*:veth0': {mtu: 9000}}}}\n"
        "  exclude: [{big-tcp: off, mtu: 9000}]\n"
    ).states
    assert list(states) == ["on-1500", "on-9000", "off-1500"]
    assert states["on-9000"].topology.nodes["client"].devices["veth0"].mtu == 9000


def test_the_command_line_wins_over_every_state(load):
    overrides = [parse_override("client:veth0.mtu=4000"), parse_override("workload.duration=7")]
    states = load(
        "states: {a: {settings: {'client:veth0': {mtu: 9000}}, workload: {duration: 3}}}\n",
        overrides=overrides,
    ).states
    assert states["a"].topology.nodes["client"].devices["veth0"].mtu == 4000
    assert states["a"].workload.duration == 7


def test_one_feature_can_be_overridden(load):
    overrides = [parse_override("*:veth0.features.tso=off")]
    states = load("settings: {'*:veth0': {features: {gso: on}}}\n", overrides=overrides).states
    assert states["default"].topology.nodes["server"].devices["veth0"].features == {"gso": True, "tso": False}


def test_compare_defaults_to_the_first_state_against_each_other(load):
    assert load("states: {a: {}, b: {}, c: {}}\n").comparisons() == [("a", "b"), ("a", "c")]


def test_a_comparison_goes_with_a_state_that_is_not_asked_for(load):
    resolved = load("states: {a: {}, b: {}, c: {}}\n", states=["a", "c"])
    assert resolved.comparisons() == [("a", "c")]


def test_a_state_survives_the_way_to_another_kernel():
    for state in load_experiment("nagle").states.values():
        again = ResolvedState.from_record(state.name, state.as_record())
        assert again.as_record() == state.as_record()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stats: {}\n", ":3: stats: unknown key, did you mean 'states'?"),
        ("protocol: {rounds: 0}\n", ":3: protocol.rounds: input should be greater than or equal to 1, got 0"),
        ("protocol: {target: narrow}\n", ":3: protocol.target: expected a share such as 1% or 0.01"),
        ("cpus: {client: one}\n", ":3: cpus.client: expected CPUs such as 0 or 0-2,5, got 'one'"),
        ("cpus: {clinet: 0}\n", ":3: state default: cpus: the topology has no node 'clinet', did you mean"),
        ("matrix: {axes: {a: {b: {}}}, exclude: [{c: b}]}\n", ":3: matrix.exclude.0.c: 'c' is not an axis"),
        ("states: {a: {workload: {lenth: 1}}}\n", ":3: state a: "),
        ("requires: {veth.max_mtu: '~ 5'}\n", ":3: requires.veth.max_mtu: expected a comparison such as"),
        ("expect: [{default: {'server:veth9.rx.862.packets': '> 0'}}]\n", ":3: default: server:veth9"),
        ("states: {a: {topology: nosuch}}\n", ":3: state a: no topology 'nosuch'"),
        ("workload: {duration: 1}\n", ":3: the key 'workload' stands twice"),
        ("states: {'../x y': {}}\n", ":3: states.../x y: '../x y' is not a state's name"),
        ("topology: veth-pair\n", ":3: the key 'topology' stands twice"),
    ],
)
def test_a_mistake_is_told_with_its_line(load, text, message):
    with pytest.raises(InputError) as caught:
        load(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "states: {on: {}, off: {}}\ncompare: [[on, off]]\n",
            ":4: compare.0.0: expected text; YAML reads on as true: ",
        ),
        (
            "states: {a: {}}\ncompare: [[0x10, a]]\n",
            "compare.0.0: expected text; YAML reads 0x10 as 16: quote it, '0x10'",
        ),
        ("states: {a: {}}\ncompare: [[1_000, a]]\n", "YAML reads 1_000 as 1000: quote it, '1_000'"),
        ("states: {a: {}}\ncompare: [[null, a]]\n", "YAML reads null as nothing: quote it, 'null'"),
        (
            "states: {a: {}}\ncompare: [[a]]\n",
            "compare.0: expected two states, such as [before, after], got ['a']",
        ),
        (
            "states: {a: {kernel: 7.10}}\n",
            ":3: states.a.kernel: expected text; YAML reads 7.10 as 7.1: quote it, '7.10'",
        ),
        (
            "requires: {iperf3: 3.10}\n",
            "requires.iperf3: expected text; YAML reads 3.10 as 3.1: quote it, '3.10'",
        ),
        (
            "protocol: {rounds: 1e3}\n",
            "protocol.rounds: expected a whole number, got '1e3': write it out, 1000",
        ),
        ("description: 12\n", "description: expected text; YAML reads 12 as a number: quote it, '12'"),
        ("cpus: {client: no}\n", ":3: cpus.client: expected CPUs such as 0 or 0-2,5, got False"),
        (
            "states: {a: {workload: {congestion: no}}}\n",
            "workload.congestion: expected text; got false: quote the word",
        ),
    ],
)
def test_a_word_that_yaml_turns_into_something_else_is_to_be_quoted(load, text, message):
    with pytest.raises(InputError) as caught:
        load(text)
    assert message in str(caught.value)


def test_what_yaml_1_1_would_turn_into_numbers_stays_as_it_is_written(load):
    assert load("states: {010: {}, 1e3: {}}\ncompare: [[010, 1e3]]\n").comparisons() == [("010", "1e3")]


def test_one_grammar_for_a_setting_on_every_command_line(load):
    for given in ("*:veth0.tso=off", "*:veth0.features.tso=off"):
        states = load("", overrides=[parse_override(given)]).states
        assert states["default"].topology.nodes["client"].devices["veth0"].features == {"tso": False}
        assert parse_assignments([given]) == {"*:veth0": {"tso": False}}


def test_a_feature_may_stand_beside_the_settings(load):
    states = load("settings: {'*:veth0': {mtu: 9000, tso: off, tx-udp-segmentation: off}}\n").states
    held = states["default"].topology.nodes["client"].devices["veth0"]
    assert held.features == {"tso": False, "tx-udp-segmentation": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "settings: {'*:veth0': {tso: maybe}}\n",
            ":3: settings.*:veth0.tso: expected on or off, got 'maybe'",
        ),
        ("settings: {'*:veth0': {tso: on, features: {tso: off}}}\n", "tso: stands among the features too"),
        (
            "settings: {'*:veth0': {tsoo: on}}\n",
            ":3: settings.*:veth0.tsoo: unknown key; there are mac, mtu,",
        ),
    ],
)
def test_a_bad_feature_is_told_where_it_stands(load, text, message):
    with pytest.raises(InputError) as caught:
        load(text)
    assert message in str(caught.value)


def test_a_key_inside_a_key_can_be_set():
    override = parse_override("protocol.noise.steal=1%")
    assert override.tree == {"protocol": {"noise": {"steal": "1%"}}}
    assert parse_override("cpus.a.b=1").tree == {"overrides": {"cpus": {"a.b": 1}}}


@pytest.mark.parametrize(
    "text", ["mtu=5", "client:veth0=5", "nothing.mtu=5", "client:veth0.mtu", "client:veth0.mtu="]
)
def test_an_override_that_names_nothing_is_refused(text):
    with pytest.raises(InputError, match=r"^--set "):
        parse_override(text)


def test_cpus():
    assert parse_cpus(3) == [3]
    assert parse_cpus("0-2,5") == [0, 1, 2, 5]


def test_rounds_that_fit_into_a_budget(load):
    resolved = load("states: {a: {}, b: {}}\nprotocol: {rounds: 3}\n")
    a, b = resolved.states.values()
    assert block_seconds([a, b]) == pytest.approx(2 * 3.5)
    assert least_seconds(resolved.experiment.protocol, [a, b]) == pytest.approx(3.5 + 3 * 7)
    assert least_seconds(resolved.experiment.protocol, [b]) == pytest.approx(3.5 + 3 * 3.5)  # a was skipped
    assert least_seconds(resolved.experiment.protocol, []) == 0
    assert blocks_within(resolved, 60) == 8
    with pytest.raises(InputError, match=r"--budget 5s: one round of each state takes 10 s"):
        blocks_within(resolved, 5)


def test_the_record_keeps_the_expectations_of_the_states_that_are_run(load):
    text = (
        "states: {a: {}, b: {}, c: {}}\nexpect: [{a: {retransmits: '< 10'}}, {b / a: {retransmits: '< 2'}}]\n"
    )
    assert load(text).as_record()["expect"] == [
        {"a": {"retransmits": "< 10"}},
        {"b / a": {"retransmits": "< 2"}},
    ]
    assert load(text, states=["a", "c"]).as_record()["expect"] == [{"a": {"retransmits": "< 10"}}]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("collector", "bfp", "input should be 'auto', 'bpf', 'af_packet' or 'none'"),
        ("stacks", "size >> 4", "expected a condition such as 'size > 65536'"),
    ],
)
def test_a_bad_choice_of_evidence_is_told_by_its_option(load, key, value, words):
    option = f"--{key} {value}"
    with pytest.raises(InputError) as caught:
        load("", overrides=[Override({"collect": {key: value}}, option)])
    assert str(caught.value).startswith(f"{option}: {words}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("client:veth0.nosuch=1", "--set client:veth0.nosuch=1: unknown key"),
        ("clint:veth0.mtu=1500", "--set clint:veth0.mtu=1500: the topology has no device 'clint:veth0'"),
        (
            "workload.duration=0.5",
            "--set workload.duration=0.5: workload.duration: iperf3 takes whole seconds",
        ),
        ("workload.duration=.inf", "--set workload.duration=.inf: .inf is not a finite number"),
        ("protocol.target=x", "--set protocol.target=x: expected a share such as 1% or 0.01"),
    ],
)
def test_a_bad_option_is_told_by_its_name_and_not_by_the_files(load, override, message):
    with pytest.raises(InputError) as caught:
        load("", overrides=[parse_override(override)])
    assert str(caught.value).startswith(message)


PARAMETERS = """\
parameters: {mtu: 1500, big: 200000}
settings: {"*:veth0": {mtu: $mtu, gso_max_size: "${big}"}}
"""


def test_a_parameter_stands_for_its_value_and_can_be_overridden(load):
    def held(**options):
        return load(PARAMETERS, **options).states["default"].topology.nodes["client"].devices["veth0"]

    assert (held().mtu, held().gso_max_size) == (1500, 200_000)
    assert held(overrides=[parse_override("parameters.mtu=9000")]).mtu == 9000


def test_a_parameter_that_is_not_declared_is_told_with_its_line(load):
    with pytest.raises(InputError, match=r":4: no parameter 'mtuu', did you mean 'mtu'"):
        load("parameters: {mtu: 1500}\nsettings: {'*:veth0': {mtu: $mtuu}}\n")


@pytest.mark.parametrize(
    ("section", "override", "words"),
    [
        (
            "parameters: {size: 500K}",
            "parameters.sise=1M",
            r"--set parameters.sise=1M: .*did you mean 'size'",
        ),
        ("", "parameters.size=1M", r"no parameter 'size'; the file declares none under 'parameters:'"),
    ],
)
def test_an_override_of_a_parameter_that_is_not_declared_is_refused(load, section, override, words):
    with pytest.raises(InputError, match=words):
        load(f"{section}\n", overrides=[parse_override(override)])


@pytest.mark.parametrize("section", ["", "parameters: {}\n"])
def test_a_parameter_of_a_file_that_declares_none_is_told(load, section):
    with pytest.raises(InputError, match=r"no parameter 'mtu'; the file declares none"):
        load(f"{section}settings: {{'*:veth0': {{mtu: $mtu}}}}\n")


def test_a_cap_below_the_rounds_is_refused():
    with pytest.raises(InputError, match="cap 3 is less than rounds 5"):
        load_experiment(
            "nagle", overrides=[parse_override("protocol.rounds=5"), parse_override("protocol.cap=3")]
        )


def test_a_topology_is_found_beside_the_experiment_that_names_it(tmp_path, monkeypatch):
    (tmp_path / "topologies").mkdir()
    (tmp_path / "topologies" / "mine.yaml").write_text(
        "nodes: {client: {devices: {v: {kind: veth, peer: 'server:v'}}}, server: {}}\n"
    )
    experiment = tmp_path / "x.yaml"
    experiment.write_text(HEAD.replace("topology: veth-pair", "topology: topologies/mine.yaml"))
    monkeypatch.chdir("/")
    assert load_experiment(str(experiment)).states["default"].topology.nodes["client"].devices.keys() == {"v"}
    experiment.write_text(HEAD.replace("topology: veth-pair", "topology: mine.yaml"))
    with pytest.raises(InputError, match=rf"x.yaml:1: state default: {tmp_path}/mine.yaml: no such file"):
        load_experiment(str(experiment))
