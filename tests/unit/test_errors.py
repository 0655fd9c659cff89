"""Text for a terminal: what must be escaped, and that nothing else is."""

import pytest

from testbed.errors import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\tc", "a\nb\tc"),
        ("a\r\nb", "a\\r\nb"),
        ("\x1b[31mred\n", "\\x1b[31mred\n"),
        ("left\u202eright", "left\\u202eright"),
        ("\ud800 ±5 é", "\\ud800 ±5 é"),
        ("", ""),
    ],
)
def test_what_is_no_text_is_shown_as_its_escape(text, shown):
    assert printable(text, keep="\n\t") == shown


def test_one_bad_character_behind_much_text_is_found():
    text = "row,1\n" * 100_000
    assert printable(text, keep="\n") is text
    assert printable(f"{text}\x9b2J", keep="\n") == f"{text}\\x9b2J"


def test_a_new_line_is_escaped_where_it_is_not_kept():
    assert printable("a\nb") == "a\\nb"
