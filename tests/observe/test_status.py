"""A status is plain data that survives the way to the engine."""

import msgspec

from weft.observe.status import Status


def test_a_status_is_the_same_after_its_journey() -> None:
    status = Status(1, 2.0, 3, 4.0, None, 0.5, 0.0, 0.0, 10, 2, 1, 100, "waits for worker 0", True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(status), type=Status) == status
