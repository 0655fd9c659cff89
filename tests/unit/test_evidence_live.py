"""What `watch` and `sizes` show of packets seen."""

from testbed.evidence.live import View, bar, shares, table
from testbed.records.round import PacketSize


def size(octets, packets, frags=0):
    return PacketSize(
        node="client", device="veth0", direction="tx", size=octets, nr_frags=frags, packets=packets
    )


def test_shares_are_of_the_bytes_and_add_frags_together():
    found = shares([size(1000, 3, 1), size(1000, 1, 2), size(100, 10)])
    assert found == [(1000, 4, 0.8), (100, 10, 0.2)]


def test_smallest_share_still_has_a_bar():
    assert bar(0.0001) == "#"
    assert len(bar(1.0)) == 24


def test_rows_show_rates_over_the_time_between_two_looks():
    view = View("client:veth0", "tx", 2.0, [size(1000, 1_000_000), size(86, 10)], drops=3, errors=1)
    first, second = table([view])
    assert first[:6] == ["client:veth0", "tx", "4.000", "500005", "1000", "4"]
    assert first[6:9] == ["1000", "500000", "100.0%"]
    assert second[:6] == [""] * 6
    assert second[6] == "86"


def test_silent_device_has_one_row():
    (row,) = table([View("client:veth0", "rx", 1.0, [], 0, 0)])
    assert row[:6] == ["client:veth0", "rx", "0.000", "0", "0", "0"]
