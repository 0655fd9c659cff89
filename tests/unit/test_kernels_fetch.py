"""Where packages come from, and which kernel a version means. Records as apt 2.6 prints them."""

import pytest

from testbed.errors import InputError
from testbed.kernels import debian
from testbed.kernels.fetch import candidates, choose

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://example.invalid/tool
Suites: nodistro
Components: main

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""


def test_only_the_distributions_own_archive_is_used(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/debian.sources").write_text(DEB822)
    (tmp_path / "sources.list.d/other.list").write_text(
        "deb https://example.invalid/apt tool-bookworm main\n"
    )
    found = debian.machine_sources(tmp_path)
    assert [source.uri for source in found] == ["http://mirror.example/debian"]
    assert found[0].suites == ("bookworm", "bookworm-updates")
    assert found[0].signed_by == "/usr/share/keyrings/debian-archive-keyring.gpg"


def test_one_line_entries_keep_their_key():
    text = (
        "# deb http://no/debian trixie main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://yes/debian trixie main # x\n"
    )
    assert debian.parse_one_line(text) == [
        debian.Source("http://yes/debian", ("trixie",), ("main",), "/k.gpg")
    ]


def package(name, version, depends="kmod"):
    return {"Package": name, "Version": version, "Depends": depends, "SHA256": "ab"}


def split_package(release, version):
    names = [f"linux-{part}-{release}" for part in ("base", "binary", "modules")]
    parts = ", ".join(f"{name} (= {version})" for name in names)
    image = package(f"linux-image-{release}", version, f"dracut | initramfs-tools, {parts}")
    return [image, *(package(name, version) for name in names)]


OFFERED = candidates(
    [
        package("linux-image-6.1.0-47-cloud-amd64", "6.1.170-1"),
        package("linux-image-6.1.0-50-cloud-amd64", "6.1.181-1"),
        package("linux-image-6.12.95+deb12-cloud-amd64-unsigned", "6.12.95-1~bpo12+1"),
        package("linux-image-6.12.95+deb12-cloud-amd64", "6.12.95-1~bpo12+1"),
        package("linux-image-6.12.117+deb13-cloud-amd64", "6.12.117-1"),
        package("linux-image-6.12.117+deb13-rt-amd64", "6.12.117-1"),
        package("linux-image-6.12.117+deb13-amd64", "6.12.117-1"),
        package("linux-image-6.12.117+deb13-amd64-dbg", "6.12.117-1"),
        # Its image was kept when the rest of it went.
        split_package("7.1.13+deb13-cloud-amd64", "7.1.13-1~bpo13+1")[0],
        *split_package("7.2.12+deb13-cloud-amd64", "7.2.12-1~bpo13+1"),
        *split_package("7.3.4+deb13-cloud-amd64", "7.3.4-1~bpo13+1"),
    ]
)


@pytest.mark.parametrize(
    ("asked", "release"),
    [
        ("6.1", "6.1.0-50-cloud-amd64"),  # 6.1.181, not 6.12
        ("6.1.170", "6.1.0-47-cloud-amd64"),
        ("6.12", "6.12.117+deb13-cloud-amd64"),
        ("7", "7.3.4+deb13-cloud-amd64"),
        ("latest", "7.3.4+deb13-cloud-amd64"),
    ],
)
def test_a_version_means_the_newest_that_begins_with_its_numbers(asked, release):
    assert choose(asked, "cloud", OFFERED).release == release


def test_real_time_and_debug_kernels_are_not_offered():
    assert [each.release for each in OFFERED if each.flavour == "generic"] == ["6.12.117+deb13-amd64"]


def test_the_signed_package_is_taken_where_both_exist():
    (found,) = [each for each in OFFERED if each.version == "6.12.95"]
    assert [part.name for part in found.packages] == ["linux-image-6.12.95+deb12-cloud-amd64"]


def test_a_split_kernel_is_its_three_packages_at_one_version():
    found = choose("7.3.4", "cloud", OFFERED)
    assert [part.name for part in found.packages] == [
        f"linux-{part}-7.3.4+deb13-cloud-amd64" for part in ("base", "binary", "modules")
    ]
    assert {part.version for part in found.packages} == {"7.3.4-1~bpo13+1"}


def test_a_kernel_whose_other_packages_are_gone_is_not_offered():
    with pytest.raises(InputError, match=r"no kernel 7\.1; the nearest are 6\.12\.95, 6\.12\.117, 7\.2\.12"):
        choose("7.1", "cloud", OFFERED)


def test_an_unknown_version_names_those_beside_it():
    with pytest.raises(
        InputError, match=r"no kernel 6\.13; the nearest are 6\.12\.95, 6\.12\.117, 7\.2\.12, 7\.3\.4"
    ):
        choose("6.13", "cloud", OFFERED)
