"""The pages of the documentation that boot kernels or take minutes, carried out from top to bottom."""

import pytest
from docs_pages import carry_out, name, of_layer

pytestmark = [pytest.mark.slow, pytest.mark.requires("qemu", "veth", "iperf3", "bpf")]


@pytest.mark.parametrize("page", of_layer("vm", "minutes"), ids=name)
def test_page_that_takes_minutes(page, tmp_path):
    assert carry_out(page, tmp_path)
