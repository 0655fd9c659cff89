"""A recorded run: its preview says what it would do; what no file could request is refused."""

import json
import shutil
from pathlib import Path

import pytest

from testbed.errors import InputError
from testbed.records.store import open_run
from testbed.running.preview import preview
from testbed.running.runner import rebuild

REFERENCE = Path(__file__).resolve().parents[2] / "results/reference-jumbogram"


@pytest.fixture
def rebuilt(tmp_path):
    """The reference run, rebuilt after `change` edited its record."""

    def changed(change):
        record = json.loads((REFERENCE / "run.json").read_text())
        change(record, next(iter(record["states"].values())))
        shutil.copy(REFERENCE / "rounds.jsonl", tmp_path)
        (tmp_path / "run.json").write_text(json.dumps(record))
        return rebuild(open_run(tmp_path))

    return changed


def test_what_a_run_asks_for_is_said(rebuilt):
    def change(record, state):
        nodes = state["topology"]["nodes"]
        nodes["client"]["devices"]["enp9s0"] = {"kind": "physical"}
        nodes["client"]["sysctls"] = {"net.ipv4.tcp_rmem": "4096 8192 16384"}

    said = "\n".join(preview(rebuilt(change), ["mine"], 2, Path("results")))
    assert "- make 2 network namespaces, with devices of kind physical, veth" in said
    assert "- take away from this machine, while a round lasts, its own client:enp9s0" in said
    assert "net.ipv4.tcp_rmem=4096 8192 16384" in said
    assert "- run iperf3: from client, to server" in said
    assert "- boot in a VM, 2 times each: mine" in said
    assert said.endswith("- write into a new folder below results/")


CHANGES = {
    "experiment": lambda record, state: record["experiment"].update(name="../../etc/cron.d/x"),
    "no name": lambda record, state: record["experiment"].pop("name"),
    "state": lambda record, state: record["states"].update({"../x": state}),
    "no states": lambda record, state: record["states"].clear(),
    "sysctl": lambda record, state: state["topology"]["nodes"]["client"].update(
        sysctls={"net./etc/cron.d/x": "1"}
    ),
    "device's sysctl": lambda record, state: state["topology"]["nodes"]["client"].update(
        sysctls={"net.ipv4.conf.eth9.forwarding": 1}
    ),
    "device": lambda record, state: state["topology"]["nodes"]["client"]["devices"].update(
        {"../x": {"kind": "dummy"}}
    ),
    "node": lambda record, state: state["topology"]["nodes"].update({"../x": {}}),
    "workload's node": lambda record, state: state["workload"].update(to="nowhere"),
    "args": lambda record, state: state["workload"].update(args=["--logfile", "/etc/cron.d/x"]),
    "cpus": lambda record, state: state.update(cpus={"client": [10**9]}),
    "cpus' node": lambda record, state: state.update(cpus={"nowhere": [0]}),
    "kernel": lambda record, state: state.update(kernel=["x"]),
    "settings": lambda record, state: state.update(settings=5),
    "no topology": lambda record, state: state.pop("topology"),
    "control character": lambda record, state: record["experiment"].update(name="a\x1b[31m"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_record_that_no_file_could_have_become_is_refused(rebuilt, change):
    with pytest.raises(InputError) as caught:
        rebuilt(change)
    assert "run.json: cannot rebuild its experiment: " in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("boots", [0, 10**9])
def test_boots_have_a_bound(rebuilt, boots):
    with pytest.raises(InputError, match=r"run.json: not a run: boots: "):
        rebuilt(lambda record, state: record.update(boots=boots))
