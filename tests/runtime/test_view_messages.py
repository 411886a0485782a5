"""Messages about members that change come as they were sent, and are told from all others."""

from typing import get_args

import msgspec
import pytest

from weft.data.share_records import HandedRound, HandedRounds, HandedShares, Reached, Redealing
from weft.runtime.messages import Message
from weft.runtime.view_messages import (
    DealAgain,
    Freeze,
    Frozen,
    GoOn,
    HandedOver,
    LaidOut,
    LinkBroken,
    LookAsked,
    LookTold,
    LostBefore,
    PieceAsked,
    PieceHanded,
    Progressed,
    RestAsked,
    RestAt,
    Resting,
    RestTold,
    StepCommitted,
    Unreached,
    ViewTaken,
    ViewTold,
)

ROUNDS = HandedRounds([HandedRound([0, 8], True, [0, 1]), HandedRound([5, 3], False, [1])], 1, None, 4)
SHARES = HandedShares(0, 2, 5, [0, 1], [(5, [0, 1, 2])], {6: [Redealing({2: 3}, [0, 1])]}, {5: ROUNDS}, 7, 1)
MESSAGES = [
    LaidOut(4711),
    LostBefore([1, 2]),
    Freeze(2, [3], [1], {1: 4711}),
    Unreached([1]),
    LinkBroken(1),
    Frozen(2, {0: 4}, [0, 1]),
    ViewTold(2, [0, 1], [0, 1], {0: 4}, "joined", [1], [0, 1], {1: 4711}),
    ViewTaken(2, Reached(3, {2: 1}), {3: Reached(2, {})}),
    DealAgain(2, {}, {0: Reached(3, {2: 1})}, 3, [1]),
    RestAsked(4),
    RestTold(4, 12, 3),
    RestAt(15),
    Resting(4, 15, "why not"),
    LookAsked(9),
    LookTold(9, {1: 2}, {1: 3}, True),
    HandedOver(2, SHARES, 1, 0, 2, b"form", 1, 64, 128),
    PieceAsked(0, 3, 64, 128),
    PieceHanded(3, b"piece"),
    Progressed(Reached(3, {2: 1})),
    StepCommitted(2),
    GoOn(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_as_it_was_sent(message: object) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Message) == message
    assert type(message) in get_args(Message)
