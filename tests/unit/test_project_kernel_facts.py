"""Facts about kernels stand in one table, and the documentation shows that one."""

import re
from pathlib import Path

import pytest

from testbed.kernel_facts import FACTS, table
from testbed.path.predict import traits_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "release", "holds"),
    [
        ("jumbo_option", "6.18.44-cloud", True),
        ("jumbo_option", "6.19", True),
        ("jumbo_option", "7.0.1", False),
        ("jumbo_option", "7.2.12", False),
        ("big_tunnels", "7.2.12", False),
        ("big_tunnels", "7.3.4", True),
        ("ipv4_limits", "6.1.0", False),
        ("ipv4_limits", "6.18", True),
        ("veth_max_mtu", "7.3.4", True),
    ],
)
def test_a_fact_holds_for_the_releases_that_it_names(name, release, holds):
    assert FACTS[name].holds(release) is holds


def test_what_was_found_by_trying_counts_more_than_the_release():
    assert traits_of("7.2.12", "", tunnel_limit=524280).big_tunnels is True
    assert traits_of("7.3.4", "", tunnel_limit=65536).big_tunnels is False
    assert traits_of("7.3.4", "").big_tunnels is True


def test_the_reference_shows_the_table():
    page = (ROOT / "docs" / "reference" / "kernel-facts.md").read_text()
    assert [row for row in table() if "| " + " | ".join(row) + " |" not in page] == []
    assert page.count("\n|") == len(FACTS) + 2


def test_no_other_place_decides_or_tells_by_a_release_what_the_table_says():
    said = re.compile(
        r"version_key\([^)]*\) *[<>=]|jumbo.*(until|before|since) +(Linux )?\d\.\d", re.IGNORECASE
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in (ROOT / "testbed").rglob("*.py")
        if path.name not in ("kernel_facts.py", "capabilities.py")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if said.search(line)
    ]
    assert found == []
