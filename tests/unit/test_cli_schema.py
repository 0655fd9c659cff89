"""The schemas that `testbed schema` prints describe the files that the program reads and writes."""

import json

import pytest
from typer.testing import CliRunner

from testbed.cli import app, main
from testbed.cli.schema import Subject


def printed(subject):
    result = CliRunner().invoke(app, ["schema", subject])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("subject", Subject)
def test_each_schema_is_an_object_with_described_keys(subject):
    schema = printed(subject)
    assert schema["type"] == "object"
    assert schema["properties"]


def test_a_topology_schema_refuses_unknown_keys_and_needs_nodes():
    schema = printed("topology")
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["nodes"]


def test_an_unknown_subject_is_refused_with_the_known_ones():
    result = CliRunner().invoke(app, ["schema", "kernel"])
    assert result.exit_code == 2
    assert "topology" in result.output


def test_an_unknown_subject_is_one_clean_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["testbed", "schema", "foo"])
    with pytest.raises(SystemExit) as ended:
        main()
    names = ", ".join(f"'{subject}'" for subject in Subject)
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"testbed: Invalid value for 'SUBJECT': 'foo' is not one of {names} (see testbed schema --help)\n"
    )
