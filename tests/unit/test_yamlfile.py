"""Files that know their lines: values, places and words of the errors."""

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from testbed.errors import InputError
from testbed.yamlfile import mistake, parse, validate


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
        ("first:\n  mtu: many\n", "f.yaml:2: first.mtu: input should be a valid integer"),
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
