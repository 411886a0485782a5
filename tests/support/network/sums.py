"""Carries parts of sums between leaders in one process: what is lent is read when it is delivered, no sooner."""

from collections import deque
from typing import Any

import numpy as np

from weft.core.names import Part
from weft.runtime.reduce.between_hosts import BetweenHosts, Key
from weft.runtime.reduce.exchange import CamePart


class Sent:
    """A part on its way; its values are those of the moment when it was sent, unless they are lent."""

    def __init__(self, key: Key, came: CamePart, *, is_lent: bool) -> None:
        self.key, self.came, self.is_lent = key, came, is_lent
        if not is_lent:
            self.capture()

    def capture(self) -> None:
        self.came, self.is_lent = self.came._replace(values=self.came.values.copy()), False


class SumPost:
    """A leader's mailbox, as far as sums go; what it sends waits in channels that keep their order."""

    def __init__(self, rank: int, posts: dict[int, "SumPost"]) -> None:
        self.rank = rank
        self.sums: BetweenHosts | None = None
        self.channels: dict[int, deque[Sent]] = {}
        """What has come, by its sender."""
        self._posts = posts
        posts[rank] = self

    def hear_sums(self, sums: BetweenHosts) -> None:
        self.sums = sums

    def send_sum(
        self, to: int, key: Key, number: int, part: Part | None, about: bytes, values: Any, *, is_lent: bool
    ) -> None:
        sent = Sent(key, CamePart(self.rank, number, part, about, values), is_lent=is_lent)
        self._posts[to].channels.setdefault(self.rank, deque()).append(sent)

    def take_back(self, key: Key) -> None:
        for post in self._posts.values():
            for sent in post.channels.get(self.rank, ()):
                if sent.is_lent and sent.key == key:
                    sent.capture()

    @property
    def waiting(self) -> list[int]:
        """Those from whom something has come."""
        return [source for source, sent in self.channels.items() if sent]

    def deliver(self, source: int) -> None:
        """Hand the next part from `source` over as a transport does: in the memory that is found for it, or in memory
        that is overwritten afterwards."""
        sent = self.channels[source].popleft()
        assert self.sums is not None
        values = sent.came.values.copy()
        room = self.sums.room(sent.key, sent.came.name)
        if room is not None:
            np.copyto(room, values)
        self.sums.hear(sent.key, sent.came._replace(values=values if room is None else room[:]))
        values.fill(np.nan)
