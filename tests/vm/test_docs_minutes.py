"""The pages of the documentation that boot kernels or take minutes, carried out from top to bottom."""

import pytest
from docs_pages import carry_out, name, of_layer

pytestmark = [pytest.mark.slow, pytest.mark.requires("qemu", "veth", "iperf3", "bpf")]

PAGES = of_layer("vm", "minutes")
if not PAGES:
    pytest.skip("no page boots a kernel or takes minutes", allow_module_level=True)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_that_takes_minutes(page, tmp_path):
    assert carry_out(page, tmp_path)
