"""The seam between the runtime and the wire."""

import inspect
from typing import Any

import pytest

from weft.transports.mixed import MixedTransport
from weft.transports.rings import RingTransport
from weft.transports.tcp import TcpTransport
from weft.transports.transport import Frame, Transport

COUNTERS = ["bytes_sent", "num_copies", "refused"]
CALLS = ["send", "poll", "outbox_bytes", "traffic", "fileno_set", "close"]


@pytest.mark.parametrize("kind", [RingTransport, TcpTransport, MixedTransport])
@pytest.mark.parametrize("call", CALLS)
def test_every_transport_is_called_alike(kind: Any, call: str) -> None:
    wanted, given = (inspect.signature(getattr(each, call)).parameters for each in (Transport, kind))
    assert list(given) == list(wanted)
    assert [each.default for each in given.values()] == [each.default for each in wanted.values()]


def test_all_calls_of_the_seam_are_compared() -> None:
    assert [name for name in vars(Transport) if not name.startswith("_")] == [*COUNTERS, *CALLS]


def test_a_frame_is_header_data_and_body_and_says_which_process_sent_it() -> None:
    assert Frame._fields == ("header", "data", "body", "sender")
