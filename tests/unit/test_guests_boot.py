"""What is put together to boot: the initramfs, QEMU's command line, how folders are shared."""

import gzip
import lzma
import subprocess
from pathlib import Path

import pytest

from testbed.errors import InputError
from testbed.guests import qemu, vng
from testbed.guests.initramfs import Entry, cpio, needed_modules
from testbed.guests.launch import Size
from testbed.guests.result import of_status
from testbed.guests.ways import Way, transports_of
from testbed.kernels import cache
from testbed.outcome import Outcome

C_DAEMON = "usage: virtiofsd [options]\n -f foreground operation\n -o sandbox=namespace|chroot\n"
RUST_DAEMON = "Usage: virtiofsd [OPTIONS]\n --shared-dir <SHARED_DIR>\n --readonly\n --cache <CACHE>\n"


def machine(transport="9p", **changes):
    shares = (
        qemu.Share("root", Path("/"), writable=False, cached=True),
        qemu.Share("results", Path("/data/a,b"), writable=True, cached=False),
    )
    values = {
        "name": "k",
        "image": Path("/k/vmlinuz"),
        "initramfs": Path("/r/initramfs"),
        "accelerator": "tcg",
        "transport": transport,
        "shares": shares,
        "console": Path("/r/console.log"),
        "control": 5,
        "channel": 6,
        "terminal": 7,
        "sockets": Path("/r/sockets"),
    }
    return qemu.Machine(**{**values, **changes})


def test_the_root_file_system_is_shared_read_only_over_9p():
    words = qemu.arguments(machine())
    (root,) = [word for word in words if word.startswith("local,id=root,")]
    assert root.endswith(",readonly=on")
    (results,) = [word for word in words if word.startswith("local,id=results,")]
    assert "readonly" not in results
    assert "path=/data/a,,b," in results  # a comma is doubled inside an option


def test_the_root_file_system_is_bound_read_only_for_a_daemon_without_such_a_switch():
    lines = qemu.daemons(machine("virtiofs"), Path("/virtiofsd"), C_DAEMON)
    script = qemu.supervisor(machine("virtiofs"), lines).splitlines()
    assert "mount -o remount,bind,ro /r/sockets/serve-root" in script
    assert not any("remount" in line and "results" in line for line in script)
    assert "sandbox=chroot" in lines[0]
    assert lines[0][lines[0].index("source=/r/sockets/serve-root") + 2] == "cache=always"
    assert "cache=none" in lines[1]


def test_the_later_daemon_is_told_by_its_help_text():
    root, results = qemu.daemons(machine("virtiofs"), Path("/virtiofsd"), RUST_DAEMON)
    assert root[root.index("--shared-dir") + 1] == "/r/sockets/serve-root"
    assert "--readonly" in root and "--readonly" not in results
    assert results[results.index("--cache") + 1] == "never"
    assert "-o" not in root


def test_the_console_is_never_quiet_and_a_panic_ends_the_guest():
    words = qemu.command_line(machine(append=("nokaslr",))).split()
    assert "quiet" not in words
    assert {"loglevel=7", "panic=-1", "console=ttyS0", "nokaslr"} <= set(words)
    assert "-no-reboot" in qemu.arguments(machine())


@pytest.mark.parametrize(
    ("config", "daemon", "expected"),
    [
        ("9P_FS=y NET_9P=y NET_9P_VIRTIO=y FUSE_FS=y VIRTIO_FS=y", True, ["9p", "virtiofs"]),
        ("FUSE_FS=y VIRTIO_FS=y", True, ["virtiofs"]),
        ("FUSE_FS=y VIRTIO_FS=y", False, []),
        ("9P_FS=m NET_9P=m NET_9P_VIRTIO=m FUSE_FS=y VIRTIO_FS=y", True, ["virtiofs", "9p"]),
        ("9P_FS=m NET_9P=m NET_9P_VIRTIO=m FUSE_FS=y VIRTIO_FS=y", False, ["9p"]),
        ("9P_FS=y NET_9P=y", True, []),
    ],
)
def test_folders_are_shared_by_what_is_built_in_first(config, daemon, expected):
    options = {f"CONFIG_{name}": value for name, value in (word.split("=") for word in config.split())}
    assert transports_of(options, have_daemon=daemon) == expected


@pytest.mark.requires("busybox")
def test_the_archive_is_one_that_cpio_reads(tmp_path):
    entries = [Entry("d", 0o040755), Entry("d/odd", 0o100644, b"seven b"), Entry("run", 0o100755, b"#!x\n")]
    listed = subprocess.run(["busybox", "cpio", "-tv"], input=cpio(entries), capture_output=True, check=True)
    rows = [
        (line.split()[0], line.split()[2], line.split()[-1]) for line in listed.stdout.decode().splitlines()
    ]
    assert rows == [("drwxr-xr-x", "0", "d"), ("-rw-r--r--", "7", "d/odd"), ("-rwxr-xr-x", "4", "run")]


def made_kernel(folder, name="7.3.4-generic", version="7.3.4", source="archive", key=None):
    folder = folder / "testbed/kernels" / name
    folder.mkdir(parents=True)
    provenance = cache.Provenance(
        name=name,
        release=f"{name}-release",
        version=version,
        source=source,
        created="2026-11-30T10:00:00+00:00",
        config_sha256="0",
        key=key,
    )
    cache.write_record(folder, provenance)
    return cache.BuiltKernel(folder, provenance)


def test_modules_come_after_those_they_depend_on(tmp_path):
    kernel = made_kernel(tmp_path)
    base = kernel.modules / "lib/modules" / kernel.release
    base.mkdir(parents=True)
    (base / "modules.dep").write_text(
        "fs/netfs/netfs.ko.xz:\nnet/9p/9pnet.ko.xz: fs/netfs/netfs.ko.xz\n"
        "net/9p/9pnet_virtio.ko.xz: net/9p/9pnet.ko.xz fs/netfs/netfs.ko.xz\n"
        "fs/9p/9p.ko.xz: net/9p/9pnet.ko.xz fs/netfs/netfs.ko.xz\n"
    )
    names = [path.name for path in needed_modules(kernel, ("virtio_pci", "9pnet_virtio", "9p"))]
    assert names == ["netfs.ko.xz", "9pnet.ko.xz", "9pnet_virtio.ko.xz", "9p.ko.xz"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("7.3", "7.3.10-cloud"),
        ("7.3.4", "7.3.4-generic"),
        ("latest", "7.3.10-cloud"),
        ("mine", "mine"),
        ("mine-release", "mine"),
    ],
)
def test_a_kernel_is_found_by_name_release_or_start_of_version(tmp_path, monkeypatch, name, expected):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for held in ("7.3.4-generic", "7.3.10-cloud", "7.3.10-generic"):
        made_kernel(tmp_path, held, held.split("-")[0])
    made_kernel(tmp_path, "mine", "7.4.0", source="build")
    assert cache.find(name).name == expected


def test_an_unknown_kernel_tells_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made_kernel(tmp_path, "7.3.4-cloud")
    with pytest.raises(InputError, match=r"no kernel '6\.12' \(here: 7\.3\.4-cloud\); .* kernel fetch 6\.12"):
        cache.find("6.12")
    with pytest.raises(InputError, match=r"did you mean '7\.3\.4-cloud'"):
        cache.find("7.3.4-clod")


def test_a_kernel_that_could_not_be_written_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RuntimeError), cache.adding("x") as folder:
        (folder / "vmlinuz").write_bytes(b"half")
        raise RuntimeError
    assert list((tmp_path / "testbed/kernels").iterdir()) == []


def test_the_same_options_in_another_order_are_the_same_config():
    one = 'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="x y"\n'
    two = '# comment\nCONFIG_C="x y"\nCONFIG_A=y\n# CONFIG_B is not set\n'
    assert cache.config_hash(one) == cache.config_hash(two)
    assert cache.config_hash(one) != cache.config_hash(one.replace("CONFIG_A=y", "CONFIG_A=m"))


@pytest.mark.parametrize(
    ("status", "outcome"), [(0, Outcome.PASS), (1, Outcome.FAIL), (4, Outcome.SKIP), (137, Outcome.FAIL)]
)
def test_an_exit_status_of_four_is_a_skip_as_in_the_kernels_selftests(status, outcome):
    assert of_status(status) is outcome


def test_compressed_modules_are_unpacked_for_busybox(tmp_path):
    from testbed.guests.initramfs import _uncompressed

    for name, pack in (("a.ko.xz", lzma.compress), ("b.ko.gz", gzip.compress), ("c.ko", bytes)):
        (tmp_path / name).write_bytes(pack(b"module"))
        assert _uncompressed(tmp_path / name) == b"module"


def test_virtme_ng_is_told_the_way_the_size_and_the_folder():
    kernel = cache.BuiltKernel(
        Path("/k"),
        cache.Provenance(
            name="k", release="7.3.4", version="7.3.4", source="build", created="", config_sha256=""
        ),
    )
    size = Size(cores=3, memory_mib=512, pins=(0, 2), append=("nokaslr",))
    words = vng.arguments("vng", kernel, Way("tcg", "9p"), size, Path("/r"), Path("/r/a b/guest"))
    assert {"--disable-kvm", "--force-9p", "--append=nokaslr", "512M", "0,2"} <= set(words)
    assert words[words.index("--rwdir") + 1] == "/r"
    assert words[-2:] == ["--exec", "sh '/r/a b/guest'"]
    words = vng.arguments("vng", kernel, Way("kvm", "virtiofs"), Size(), Path("/r"), Path("/r/guest"))
    assert {"--disable-kvm", "--force-9p", "--pin"}.isdisjoint(words)
