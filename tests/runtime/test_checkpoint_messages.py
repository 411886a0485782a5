"""Messages about checkpoints come as they were sent, and are told from all others."""

from typing import get_args

import msgspec
import pytest
from support.checkpoints.written import facts

from weft.checkpoints.forms import Packing
from weft.checkpoints.manifest import FORMAT, FileEntry, Manifest, WorkerPart
from weft.checkpoints.tensor_file import TensorEntry
from weft.data.share_records import HandedRound, HandedRounds, HandedShares, Reached, Redealing
from weft.runtime.checkpoint_messages import CheckpointDue, PartCopied, PartLost, PartWritten, TakePart
from weft.runtime.messages import Message

ROUNDS = HandedRounds([HandedRound([0, 8], True, [0, -1]), HandedRound([5, 3], False, [1])], 1, None, 4, 2)
SHARES = HandedShares(0, 2, 5, [0, 1], [(5, [0, 1, 2])], {6: [Redealing({2: 3}, [0, 1], True)]}, {5: ROUNDS}, 7, 1)
FILE = FileEntry("worker-00001.safetensors", 12, "ab", [TensorEntry("w", "F32", [3])])
STATE = Packing(lambda value: None).pack({"w": [1, 2.5, (None, "text")]}, "worker")
PART = WorkerPart(1, 2, 3, 8.0, FILE, STATE, SHARES, Reached(6, {5: 2}))
MESSAGES = [
    CheckpointDue(True),
    TakePart(40, 1, 3),
    PartCopied(3),
    PartWritten(3, PART, None),
    PartWritten(3, PART, Manifest(FORMAT, 40, 3, facts(2), {"weft": "1"}, ["w (3,) float32"], [])),
    PartLost(3, "No space left on device"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_as_it_was_sent(message: object) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Message) == message
    assert type(message) in get_args(Message)
