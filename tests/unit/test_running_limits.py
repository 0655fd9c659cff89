"""What a round is held against: noise, and packets that the collector did not see."""

import pytest

from testbed.experiments.spec import Protocol
from testbed.records.round import PacketSizesMeta, Unseen
from testbed.running.measure import unseen_above

SIZES = PacketSizesMeta(
    collector="bpf", unseen={"server:veth0 rx": Unseen.of(3, 3 * 1514, 200_000, 200_000 * 1514)}
)


def test_few_unseen_packets_leave_a_round_valid_by_default():
    assert Protocol().limits.unseen == 0.001
    assert unseen_above(SIZES, Protocol().limits) == []


@pytest.mark.parametrize("limit", [0, "0.001%"])
def test_unseen_packets_above_the_limit_are_told_with_their_figures(limit):
    (reason,) = unseen_above(SIZES, Protocol(unseen=limit).limits)
    assert reason.startswith("packet sizes: 3 packets, 4542 bytes not seen at server:veth0 rx")


def test_round_without_packet_sizes_has_none_unseen():
    assert unseen_above(None, Protocol(unseen=0).limits) == []


def test_limits_carry_the_noise_that_a_file_declares():
    limits = Protocol(noise={"steal": "2%"}, unseen="1%").limits
    assert (limits.steal, limits.cpu_pressure, limits.unseen) == (0.02, None, 0.01)
