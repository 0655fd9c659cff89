"""The documentation: every block is tried or says why not, and what needs no root works as printed."""

import pytest
from docs_pages import LAYERS, blocks, carry_out, name, of_layer, pages, steps


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_block_says_what_is_done_with_it(page):
    unmarked = [block.where for block in blocks(page) if block.what is None]
    assert not unmarked
    wrong = [block.where for block in blocks(page) if block.what == "run" and block.how not in LAYERS]
    assert not wrong


@pytest.mark.parametrize("page", of_layer("user"), ids=name)
def test_page_that_needs_no_root(page, tmp_path):
    assert carry_out(page, tmp_path)


def test_commands_of_a_block_with_their_output_and_status():
    first, second = steps("$ one \\\n  two\nout\n$ three  # exits 2\n")
    assert (first.command, first.output, first.status) == ("one \\\n  two", "out\n", 0)
    assert (second.command, second.output, second.status) == ("three", "", 2)
