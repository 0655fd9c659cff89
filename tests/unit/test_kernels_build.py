"""Series, trees, configs and logs of builds, on a small tree that has what marks Linux."""

import shutil
import subprocess

import pytest

from testbed.errors import InputError, MissingCapability
from testbed.kernels import build, kconfig, series
from testbed.kernels.series import SeriesDoesNotApply
from testbed.kernels.tree import open_tree, run_git

KCONFIG = 'config VETH\n\ttristate "veth"\n\nmenuconfig NETKIT\n\tbool\n\tdepends on NET\n'
DEV = "".join(f"line {number}\n" for number in range(1, 41))


def commit(tree, message):
    run_git(tree, "add", "-A")
    assert run_git(tree, "commit", "-q", "-m", message).returncode == 0


@pytest.fixture
def linux(tmp_path, monkeypatch):
    """A git tree that passes for Linux, and a branch `topic` with two patches on it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = tmp_path / "linux"
    for name, text in {
        "Kbuild": "",
        "Kconfig": KCONFIG,
        "init/main.c": "int main;\n",
        "net/core/dev.c": DEV,
        "drivers/net/veth.c": "int mtu = 65535;\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    run_git(tree.parent, "init", "-q", "-b", "main", str(tree))
    commit(tree, "base")
    run_git(tree, "checkout", "-q", "-b", "topic")
    (tree / "drivers/net/veth.c").write_text("int mtu = 524280;\n")
    commit(tree, "veth: raise the MTU")
    (tree / "net/core/dev.c").write_text(DEV.replace("line 20\n", "line twenty\n"))
    commit(tree, "net: spell a number")
    run_git(tree, "checkout", "-q", "main")
    return tree


def as_folder(linux, tmp_path):
    run_git(linux, "format-patch", "-q", "--cover-letter", "-o", str(tmp_path / "patches"), "main..topic")
    return str(tmp_path / "patches")


def as_mbox(linux, tmp_path):
    mbox = tmp_path / "series.mbox"
    mbox.write_text(run_git(linux, "format-patch", "--stdout", "main..topic").stdout)
    return str(mbox)


def as_range(linux, tmp_path):
    return "main..topic"


@pytest.mark.parametrize("form", [as_folder, as_mbox, as_range])
def test_a_series_in_any_form_makes_the_tree_of_its_branch(linux, tmp_path, form):
    before = snapshot(linux)
    asked = series.read_series(form(linux, tmp_path), linux)
    assert [patch.subject for patch in asked.records()] == ["veth: raise the MTU", "net: spell a number"]
    assert asked.files() == ["drivers/net/veth.c", "net/core/dev.c"]
    with open_tree(linux, asked.base) as tree:
        made = series.apply(tree, asked)
        assert tree.tree_hash(made) == run_git(linux, "rev-parse", "topic^{tree}").stdout.strip()
    assert snapshot(linux) == before


def snapshot(tree):
    """Every file of the user's tree and of its repository, with its content."""
    return {path: path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()}


@pytest.mark.requires("xz")
def test_a_plain_folder_and_its_archive_import_the_same_content(linux, tmp_path):
    plain = tmp_path / "linux-7.3"
    subprocess.run(["cp", "-a", str(linux), str(plain)], check=True)
    subprocess.run(["rm", "-rf", str(plain / ".git")], check=True)
    # As Debian ships its source: a .gitignore that ignores all of it.
    (plain / ".gitignore").write_text("*\n")
    subprocess.run(["tar", "-C", str(tmp_path), "-cJf", str(tmp_path / "l.tar.xz"), "linux-7.3"], check=True)
    hashes = []
    for source in (plain, tmp_path / "l.tar.xz"):
        with open_tree(source) as tree:
            hashes.append(tree.tree_hash(tree.base))
            assert "net/core/dev.c" in tree.git("ls-tree", "-r", "--name-only", tree.base)
    assert hashes[0] == hashes[1]
    assert not (plain / ".git").exists()


@pytest.mark.requires("xz")
def test_an_archive_whose_compressor_is_not_installed_names_the_package(linux, tmp_path, monkeypatch):
    packed = tmp_path / "l.tar.xz"
    subprocess.run(["tar", "-C", str(linux.parent), "-cJf", str(packed), linux.name], check=True)
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("tar", "git"):
        (bare / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(bare))
    reason = "unpacking l.tar.xz needs xz: apt-get install xz-utils"
    with pytest.raises(MissingCapability, match=reason), open_tree(packed):
        pass


def test_what_does_not_apply_shows_the_hunk(linux, tmp_path):
    mbox = as_mbox(linux, tmp_path)
    (linux / "net/core/dev.c").write_text(DEV.replace("line 20\n", "line XX\n"))
    commit(linux, "in the way")
    with open_tree(linux) as tree, pytest.raises(SeriesDoesNotApply) as error:
        series.apply(tree, series.read_series(mbox, linux))
    hunk = error.value.shown.splitlines()
    assert str(error.value) == (
        "series series: patch 2 of 2 'net: spell a number' does not apply: "
        "net/core/dev.c:17 is different in this tree"
    )
    assert hunk[0].startswith("@@ -17,7 +17,7 @@")
    assert "-line 20" in hunk and "+line twenty" in hunk
    with open_tree(linux) as tree:
        assert tree.git("worktree", "list").count("\n") == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("nothing-there", "no such file or folder, and not a range"),
        ("main..main", "holds no commits"),
        ("main..nowhere", "main..nowhere"),
    ],
)
def test_a_series_that_is_none_is_said_in_one_line(linux, asked, words):
    with pytest.raises(InputError, match=words) as error:
        series.read_series(asked, linux)
    assert "\n" not in str(error.value)


def test_a_file_without_patches_is_no_series(linux, tmp_path):
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(InputError):
        series.read_series(str(tmp_path / "notes.txt"), linux)


def test_a_tree_that_is_not_linux_is_refused_with_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "other").mkdir()
    with (
        pytest.raises(InputError, match="not a Linux tree: Kbuild is missing"),
        open_tree(tmp_path / "other"),
    ):
        pass
    (tmp_path / "file").write_text("no archive")
    with pytest.raises(InputError, match="cannot unpack"), open_tree(tmp_path / "file"):
        pass


def test_an_option_that_does_not_exist_and_one_that_does_not_hold_are_each_named(linux, tmp_path):
    fragment = tmp_path / "mine.config"
    fragment.write_text("CONFIG_VETH=y\nCONFIG_NETKIT=y\nCONFIG_NETKITT=y\n# CONFIG_GONE is not set\n")
    asked = kconfig.read_fragment(fragment)
    with open_tree(linux) as tree:
        missing = kconfig.lost(asked, {"CONFIG_VETH": "y"}, tree, tree.base)
    assert [(each.option, each.where) for each in missing] == [
        ("CONFIG_NETKIT", "Kconfig:4"),
        ("CONFIG_NETKITT", None),
    ]
    with pytest.raises(InputError) as error:
        kconfig.check_fragments([fragment], missing, ["CONFIG_NETKIT"])
    assert str(error.value) == (
        f"{fragment}: CONFIG_NETKIT=y does not hold (it is n); it depends on: Kconfig:4; "
        f"{fragment}: CONFIG_NETKITT does not exist in this tree, did you mean 'CONFIG_NETKIT'?"
    )


def test_a_line_that_is_no_option_is_an_error_at_its_place(tmp_path):
    (tmp_path / "mine.config").write_text("CONFIG_VETH=y\nVETH=y\n")
    with pytest.raises(InputError, match=r"mine\.config:2: expected CONFIG_NAME=value, got 'VETH=y'"):
        kconfig.read_fragment(tmp_path / "mine.config")


def test_the_lean_config_has_each_option_once():
    lines = [line for line in kconfig.LEAN.read_text().splitlines() if line.startswith("CONFIG_")]
    assert len(lines) == len(set(lines))
    kconfig.read_fragment(kconfig.LEAN)


def test_only_warnings_in_the_files_of_the_series_are_listed():
    log = (
        "  CC      net/core/dev.o\n"
        "/cache/src/net/core/dev.c:12:5: warning: unused variable 'x' [-Wunused-variable]\n"
        "/cache/src/net/core/dev.c:12:5: warning: unused variable 'x' [-Wunused-variable]\n"
        "../mm/slub.c:1:1: warning: other\n"
        "../drivers/net/veth.c:9:1: error: no\n"
    )
    assert build.warnings_in(log, ["net/core/dev.c", "drivers/net/veth.c"]) == [
        "net/core/dev.c:12:5: warning: unused variable 'x' [-Wunused-variable]"
    ]


def test_the_compilers_error_is_told_before_makes():
    log = "net/a.c:3:1: error: expected ';' before '}' token\nmake[2]: *** [x: net/a.o] Error 1\n"
    assert build.first_error(log) == "net/a.c:3:1: error: expected ';' before '}' token"
    assert build.first_error("make: *** No rule to make target\n").startswith("make: ***")


def test_the_key_changes_with_each_thing_that_makes_the_kernel():
    key = build.content_key("tree", {"CONFIG_A": "y", "CONFIG_B": "y"}, ["gcc 12"])
    assert key == build.content_key("tree", {"CONFIG_B": "y", "CONFIG_A": "y"}, ["gcc 12"])
    others = [
        build.content_key("tree2", {"CONFIG_A": "y", "CONFIG_B": "y"}, ["gcc 12"]),
        build.content_key("tree", {"CONFIG_A": "n", "CONFIG_B": "y"}, ["gcc 12"]),
        build.content_key("tree", {"CONFIG_A": "y", "CONFIG_B": "y"}, ["gcc 13"]),
    ]
    assert len({key, *others}) == 4
