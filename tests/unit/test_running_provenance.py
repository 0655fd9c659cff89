"""Where a run took place, from recorded inputs."""

from testbed.kernels.running import build_id, kernel_config, this_kernel
from testbed.running.provenance import machine, tool_versions

NOTES = (
    bytes.fromhex("04000000 14000000 03000000".replace(" ", ""))
    + b"GNU\0"
    + bytes.fromhex("48dc540c8b76393804ca8088dbfa7d42911a9444")
)


def test_build_id_is_read_from_the_elf_notes():
    assert build_id(NOTES) == "48dc540c8b76393804ca8088dbfa7d42911a9444"


def test_notes_without_a_build_id_give_none():
    assert build_id(b"") is None


def test_this_machine_and_kernel_are_described():
    here, kernel = machine(), this_kernel()
    assert here.cores >= 1
    assert here.memory_bytes > 1 << 27
    assert here.cpu_model
    assert kernel.release
    assert (kernel.config_sha256 is not None) == (kernel_config() is not None)


def test_versions_name_the_testbed_and_begin_with_a_digit():
    versions = tool_versions()
    assert "testbed" in versions
    assert all(version[0].isdigit() for version in versions.values())
