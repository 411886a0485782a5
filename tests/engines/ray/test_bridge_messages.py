"""The line between a launcher and its Ray bridge."""

import socket
from typing import Any

from weft.engines.ray.bridge_messages import Answered, Ask, BridgeConnection, Clear, Place, ToBridge, ToLauncher


def test_what_is_said_at_one_end_is_heard_at_the_other_in_order() -> None:
    ours, theirs = socket.socketpair()
    launcher, bridge = BridgeConnection(ours, ToLauncher), BridgeConnection(theirs, ToBridge)
    said: list[Any] = [Place([{"CPU": 1.0}] * 2, 10.0), Ask(1, "begin", b"\x00\xff\n"), Clear()]
    for each in said:
        launcher.send(each)
    heard: list[object] = []
    while len(heard) < len(said):
        heard += bridge.receive(1.0)
    assert heard == said
    answer = Answered(1, "begin", b"x" * 80_000)  # more than one read takes
    launcher_heard: list[object] = []
    bridge.send(answer)
    while not launcher_heard:
        launcher_heard += launcher.receive(1.0)
    assert launcher_heard == [answer]
    launcher.close()
    bridge.close()


def test_silence_is_nothing_and_an_end_that_is_gone_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    launcher, bridge = BridgeConnection(ours, ToLauncher), BridgeConnection(theirs, ToBridge)
    assert list(bridge.receive()) == []
    assert not bridge.is_closed
    assert not bridge.is_hung_up
    launcher.close()
    assert bridge.is_hung_up
    assert list(bridge.receive()) == []
    assert bridge.is_closed
    bridge.send(Answered(0, "wait", b""))  # nobody hears it
    bridge.close()
