"""A link: how long bytes take."""

from weft.cost.links import Link


def test_a_message_on_an_idle_link_takes_its_latency_and_the_time_of_its_bytes() -> None:
    assert Link(0.25, 8.0).seconds(4) == 0.25 + 0.5


def test_a_message_without_bytes_takes_the_latency() -> None:
    assert Link(0.25, 8.0).seconds(0) == 0.25
