"""Files that know their lines: values, places and words of the errors."""

from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from testbed.errors import InputError
from testbed.yamlfile import load, mistake, parse, validate


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    mtu: int = 0
    names: list[str] = []


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: Inner
    second: dict[str, Inner] = {}

    @model_validator(mode="after")
    def _smaller(self):
        for name, inner in self.second.items():
            if inner.mtu > self.first.mtu:
                raise mistake(f"mtu {inner.mtu} is above the first", "second", name, "mtu")
        return self


def test_a_mac_address_is_text_and_a_key_stays_as_written():
    document = parse("mac: 10:11:12:13:14:15\non: 1\n0x10: 16\n", "file")
    assert document.value == {"mac": "10:11:12:13:14:15", "on": 1, "0x10": 16}


def test_every_key_and_item_has_its_line():
    document = parse("a:\n  b: [1,\n    2]\n", "file")
    assert document.lines[("a", "b")] == 2
    assert document.lines[("a", "b", 1)] == 3
    assert document.line(("a", "b", 1, "deeper")) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first: {mut: 5}\n", "f.yaml:1: first.mut: unknown key, did you mean 'mtu'?"),
        ("first:\n  mtu: many\n", "f.yaml:2: first.mtu: expected a whole number, got 'many'"),
        ("second: {}\n", "f.yaml:1: file: the key 'first' is missing"),
        ("first:\n  mtu: 1\nfirst:\n  mtu: 2\n", "f.yaml:3: the key 'first' stands twice"),
        ("first: {mtu: 1}\nsecond:\n  x:\n    mtu: 2\n", "f.yaml:4: second.x.mtu: mtu 2 is above the first"),
        ("first: [\n", "f.yaml:2: not YAML"),
        ("first: &a\n  x: *a\n", "f.yaml:2: an alias (*) refers to what it stands in"),
        ("- 1\n", "f.yaml:1: expected a mapping of keys to values, got a list"),
    ],
)
def test_a_mistake_is_told_with_its_line(text, message):
    with pytest.raises(InputError) as caught:
        validate(parse(text, "f.yaml"), Outer)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_first_mistake_in_the_file_is_the_one_told():
    with pytest.raises(InputError, match=r"^f.yaml:2: "):
        validate(parse("first:\n  mtu: x\nsecond: {y: {names: 3}}\n", "f.yaml"), Outer)


def test_a_merge_brings_in_what_the_mapping_does_not_say_itself():
    document = parse("a: &a {x: 1, y: 2}\nb: &b\n  y: 3\n  z: 4\nc:\n  <<: [*a, *b]\n  x: 0\n", "file")
    assert document.value["c"] == {"x": 0, "y": 2, "z": 4}
    assert [document.line(("c", name)) for name in "xyz"] == [7, 1, 4]


def test_a_merge_of_a_merge_and_a_quoted_word():
    assert parse("a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}\n", "file").value["c"] == {"x": 1, "y": 2}
    assert parse("c: {'<<': 1}\n", "file").value == {"c": {"<<": 1}}


def _nest(inner: str) -> str:
    return "[" * 30 + inner + "]" * 30


def _levels(first: str, one: str) -> str:
    """Seven levels, each of ten aliases of the one before."""
    names = "abcdefgh"
    lines = [f"a: &a {first}"]
    lines += [f"{name}: &{name} {one % ','.join([f'*{before}'] * 10)}" for before, name in pairwise(names)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_levels("[x]", "[%s]"), "f.yaml:1: more than 200,000 values"),
        (_levels("{x: 1}", "{<<: [%s]}"), "f.yaml:2: more than 200,000 values"),
        ("x: 1\na: [" + "1," * 200_001 + "]", "f.yaml:2: more than 200,000 values"),
        ("a:\n " + "[" * 60, "f.yaml:2: nested more than 50 deep"),
        (f"a: &a {_nest('')}\nb: {_nest('*a')}", "f.yaml:1: nested more than 50 deep"),
        ("\na: " + "9" * 5000, f"f.yaml:2: {'9' * 28}...{'9' * 28} is beyond 64 bits"),
        ("a: 0x" + "f" * 17, "f.yaml:1: 0xfffffffffffffffff is beyond 64 bits"),
        ("a: -9223372036854775809", "f.yaml:1: -9223372036854775809 is beyond 64 bits"),
        ("a: 1.0e+999", "f.yaml:1: 1.0e+999 is not a finite number"),
        ("a: -.inf", "f.yaml:1: -.inf is not a finite number"),
        ("a: .nan", "f.yaml:1: .nan is not a finite number"),
        ("a: 1\nb: \0", "f.yaml:2: not YAML: the character U+0000"),
        ('a: "\\0"', "f.yaml:1: the control character U+0000 in a text"),
        ('a: 1\n"b\\e[31m": 2', "f.yaml:2: the control character U+001B in a text"),
        ("a: 1\n---\nb: 1", "f.yaml:2: a second document begins here"),
        ("a: *b", "f.yaml:1: the alias *b stands for nothing"),
        ("a: {<<: 5}", "f.yaml:1: << merges a mapping or a list of them"),
        ("a: {<<: [{}, 5]}", "f.yaml:1: << merges mappings"),
        (
            "a: !!python/object/apply:os.system [id]",
            "f.yaml:1: the tag !!python/object/apply:os.system ",
        ),
        ("a: !!int x", "f.yaml:1: 'x' is not what its tag !!int says"),
        ("a: !!bool x", "f.yaml:1: 'x' is not what its tag !!bool says"),
        ("a: !!timestamp x", "f.yaml:1: the tag !!timestamp is not known here"),
        ("? [a]\n: 1", "f.yaml:1: a key must be a word"),
        ("? " + "k" * 300 + "\n: 1", "f.yaml:1: a key of 300 characters"),
        ("a: " + "v" * 70_000, "f.yaml:1: a text of 70,000 characters"),
    ],
    ids=range(25),
)
def test_what_no_file_needs_is_refused_on_its_line(text, message):
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200


def test_numbers_up_to_64_bits_and_words_that_look_like_others():
    numbers = parse("[18446744073709551615, -9223372036854775808, 0x10, 1_000, 1.5e-3]", "file").value
    assert numbers == [2**64 - 1, -(2**63), 16, 1000, 0.0015]
    words = "0777, 190:20:30, 1:30.5, 2026-01-01, 1e9, =, <<"
    assert parse(f"[{words}]", "file").value == words.split(", ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\nb: \xff\n", "f.yaml:2: cannot read: not UTF-8 text"),
        (b"#" * (4 << 20) + b"#", "f.yaml: cannot read: larger than 4 MiB"),
    ],
)
def test_a_file_that_is_no_text_or_too_large(tmp_path, data, message):
    (tmp_path / "f.yaml").write_bytes(data)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "f.yaml")
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_a_device_file_is_not_opened():
    with pytest.raises(InputError, match="/dev/zero: cannot read: not a file"):
        load(Path("/dev/zero"))
