"""A status is plain data that survives the way to the engine."""

import msgspec
import pytest

from weft.observe.records.status import CodingStatus, Status, in_all


def test_a_status_is_the_same_after_its_journey() -> None:
    status = Status(
        rank=1,
        time_s=2.0,
        step=3,
        samples=4.0,
        loss=None,
        waiting_s=0.5,
        staleness_mean=0.0,
        staleness_max=0.0,
        bytes_sent=10,
        num_copies=2,
        refused=1,
        steps_total=100,
        doing="waits for worker 0",
        is_waiting=True,
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(status), type=Status) == status


def test_what_codecs_did_for_several_workers_adds_up_and_residuals_are_one_vector() -> None:
    together = in_all([CodingStatus(100, 10, 1.0, 2.0, 3.0, 1), CodingStatus(50, 5, 0.5, 0.25, 4.0, 0)])
    assert together == CodingStatus(150, 15, 1.5, 2.25, pytest.approx(5.0), 1)  # type: ignore[arg-type]
    assert in_all([]) is None
