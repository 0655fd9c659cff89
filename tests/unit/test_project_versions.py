"""Versions as they compare and as they sort."""

from testbed.versions import order_key, version_fits, version_key


def test_a_candidate_sorts_before_its_release_and_after_the_release_before():
    assert sorted(["7.3", "7.3-rc2", "7.2.9", "7.3-rc10", "7.3.1"], key=order_key) == [
        "7.2.9",
        "7.3-rc2",
        "7.3-rc10",
        "7.3",
        "7.3.1",
    ]


def test_revisions_of_one_version_sort_by_their_numbers():
    assert max("6.1.0-9-amd64", "6.1.0-13-amd64", key=order_key) == "6.1.0-13-amd64"


def test_a_version_compares_by_its_leading_number():
    assert version_key("6.18.5-rc1") == (6, 18, 5)
    assert version_key("unknown") == ()


def test_a_shorter_version_stands_for_all_that_begin_with_it():
    assert version_fits("7.3", "7.3.4")
    assert not version_fits("7.3", "7.30")
    assert not version_fits("latest", "7.3")
