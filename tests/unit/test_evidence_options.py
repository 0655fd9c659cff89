"""What `testbed run` is asked to collect, on its command line."""

import pytest

from testbed.cli.run import _collect
from testbed.errors import InputError


def test_what_is_not_asked_leaves_the_files_own():
    assert _collect(None, None, False) == {}
    assert _collect("bpf", "size > 65536", True) == {
        "collector": "bpf",
        "stacks": "size > 65536",
        "profile": True,
    }


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("bfp", None, False), "--collector bfp: input should be 'auto', 'bpf', 'af_packet' or 'none'"),
        ((None, "size >> 4", False), "--stacks size >> 4: expected a condition such as 'size > 65536'"),
    ],
)
def test_a_wrong_option_is_named(asked, words):
    with pytest.raises(InputError) as error:
        _collect(*asked)
    assert str(error.value).startswith(words)
