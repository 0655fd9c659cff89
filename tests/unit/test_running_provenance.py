"""Where a run took place, from recorded inputs."""

import re
import subprocess
from pathlib import Path

from testbed.kernels.cache import config_hash
from testbed.kernels.running import build_id, this_kernel
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
    assert here.cores == int(told("nproc", "--all"))
    memory = re.search(r"^MemTotal: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert here.memory_bytes == int(memory[1]) * 1024
    assert here.cpu_model
    assert kernel.release == told("uname", "-r")
    assert kernel.version == told("uname", "-v")


def test_the_kernels_configuration_is_told_by_its_digest():
    files = (("zcat", "/proc/config.gz"), ("cat", f"/boot/config-{told('uname', '-r')}"))
    argv = next((argv for argv in files if Path(argv[1]).exists()), None)
    if argv is None:
        assert this_kernel().config_sha256 is None
        return
    config = subprocess.run(argv, capture_output=True, check=True).stdout
    assert this_kernel().config_sha256 == config_hash(config.decode())


def told(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_a_configuration_has_one_hash_whatever_its_order_and_comments():
    one = "# Linux 7.3\nCONFIG_VETH=y\nCONFIG_VXLAN=m\n"
    assert config_hash(one) == config_hash("CONFIG_VXLAN=m\nCONFIG_VETH=y\n")
    assert config_hash(one) != config_hash("CONFIG_VXLAN=y\nCONFIG_VETH=y\n")


def test_versions_name_the_testbed_and_begin_with_a_digit():
    versions = tool_versions()
    assert "testbed" in versions
    assert all(version[0].isdigit() for version in versions.values())
