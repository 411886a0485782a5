"""How long bytes were under way between workers."""

from typing import Any

import pytest
from support.processes.records import status_with

from weft.observe.records.linkbook import LinkBook
from weft.observe.records.status import LinkStatus, Status


def status(
    rank: int, step: int, waiting: float = 0.5, round_trip_s: float = 0.001, **links: tuple[float, int]
) -> Status:
    """After so many steps of a tenth of a second; `to1=(0.02, 1000)` is what each step sends to worker 1."""
    told = [LinkStatus(int(to[2:]), each_s * step, size * step, round_trip_s) for to, (each_s, size) in links.items()]
    time_s = 0.1 * step
    return status_with(rank=rank, time_s=time_s, step=step, waiting_s=waiting * time_s, links=told)


def book(*told: Status) -> LinkBook:
    made = LinkBook()
    for one in told:
        made.hear(one)
    return made


def test_a_flow_is_what_a_step_sends_one_way_over_the_last_steps() -> None:
    made = book(*(status(0, step, to1=(0.02, 5000)) for step in (2, 5, 8, 30, 40)))
    assert made.flows().keys() == {(0, 1)}
    flow = made.flows()[0, 1]
    assert (flow.step_s, flow.byte_s) == pytest.approx((0.02, 4e-6))


def test_few_steps_and_few_bytes_say_nothing() -> None:
    assert book(status(0, 2, to1=(0.02, 5000)), status(0, 6, to1=(0.02, 5000))).flows() == {}
    assert book(status(0, 2, to1=(0.02, 10)), status(0, 12, to1=(0.02, 10))).flows() == {}
    assert book(status(0, 1, to1=(0.02, 5000)), status(0, 6, to1=(0.02, 5000))).flows() == {}, "the first warms up"


def of_ring(slow: int | None, waiting: float = 0.5, usual_s: float = 0.01) -> LinkBook:
    told = []
    for rank in range(3):
        peer = (rank + 1) % 3
        each_s = 0.04 if slow in (rank, peer) else usual_s
        told += [status(rank, step, waiting, **dict[str, Any]({f"to{peer}": (each_s, 5000)})) for step in (2, 12)]
    return book(*told)


def test_a_workers_messages_are_compared_with_those_between_others() -> None:
    assert of_ring(1).of_worker(1) == pytest.approx((0.04, 0.01, 4.0))
    own_s, others_s, times = of_ring(1).of_worker(0) or (0.0, 0.0, 0.0)
    assert own_s < others_s
    assert times < 1
    assert book(status(0, 2, to1=(0.02, 5000)), status(0, 12, to1=(0.02, 5000))).of_worker(0) is None


def test_the_network_as_a_whole_is_slow_when_it_takes_much_of_a_step_and_links_are_alike() -> None:
    assert of_ring(None, usual_s=0.045).of_all(0.1) == pytest.approx(0.045)
    assert of_ring(None, usual_s=0.045, waiting=0.1).of_all(0.1) is None, "nobody waits for it"
    assert of_ring(None, usual_s=0.01).of_all(0.1) is None, "it takes little"
    assert of_ring(1, usual_s=0.015).of_all(0.06) is None, "it is one worker's link"
    assert LinkBook().of_all(0.1) is None, "there is none"


def of_star(usual_round_trip_s: float) -> LinkBook:
    """Worker 0 sends to both others, which have nothing to say to each other."""
    told = []
    for step in (2, 12):
        told.append(status(0, step, round_trip_s=0.02, to1=(0.03, 5000), to2=(0.03, 5000)))
        told.append(status(1, step, round_trip_s=usual_round_trip_s, to2=(0.0, 0)))
    return book(*told)


def test_where_others_say_nothing_to_each_other_round_trips_tell_whose_link_it_is() -> None:
    assert of_star(0.002).of_worker(0) == pytest.approx((0.03, 0.003, 10.0))
    assert of_star(0.02).of_worker(0) == pytest.approx((0.03, 0.03, 1.0)), "all links are alike"
    assert of_star(0.0001).of_worker(0) is None, "nobody can tell"
