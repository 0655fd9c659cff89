"""The pages of the documentation that need root, carried out from top to bottom."""

import pytest
from docs_pages import carry_out, name, of_layer

pytestmark = pytest.mark.requires("veth", "iperf3", "bpf")


@pytest.mark.parametrize("page", of_layer("root"), ids=name)
def test_page_that_needs_root(page, tmp_path):
    assert carry_out(page, tmp_path)
