"""The supervisor's part in changes of view: it proposes, collects `Frozen`, and tells the cut (decision 0017).

| state    | entered when                        | then                                                             |
|----------|-------------------------------------|------------------------------------------------------------------|
| starting | the workers start                   | a loss ends the run, until all have sent `Settled`               |
| steady   | all have settled; a view was told   |                                                                  |
| freezing | a member is lost                    | the others are sent `Freeze`; the next loss begins it again      |
|          | all members have answered `Frozen`  | each is sent `ViewTold`, with what it has been sent by the others |
"""

from collections.abc import Callable

from weft.runtime.messages import Freeze, Frozen, Message, ViewTold


class Views:
    """The members of a run, by rank, and the number of their view."""

    def __init__(self, num_workers: int, send: Callable[[int, Message], None]) -> None:
        self.view = 0
        self.members = list(range(num_workers))
        self.is_freezing = False
        self._send = send
        self._settled: set[int] = set()
        self._frozen: dict[int, Frozen] = {}
        self._lost: list[int] = []
        self._reason = ""

    @property
    def is_settled(self) -> bool:
        """Whether all workers train, so that the others can go on without one."""
        return len(self._settled) == len(self.members) + len(self._lost)

    def settle(self, rank: int) -> None:
        """A worker has laid its model out and is connected."""
        self._settled.add(rank)

    def lose(self, rank: int, reason: str) -> None:
        """Begin a view without worker `rank`."""
        self.members.remove(rank)
        self._lost.append(rank)
        self._reason = reason
        self.view += 1
        self._frozen.clear()
        self.is_freezing = True
        for member in self.members:
            self._send(member, Freeze(self.view, list(self._lost)))

    def hear(self, rank: int, message: Frozen) -> None:
        """A worker has frozen; when all have, all are told the view. An answer to an earlier `Freeze` is too late."""
        if message.view != self.view or rank not in self.members:
            return
        self._frozen[rank] = message
        if self.is_freezing and len(self._frozen) == len(self.members):
            self.is_freezing = False
            reached = {other: frozen.reached for other, frozen in self._frozen.items()}
            for member in self.members:
                cut = {other: frozen.sent.get(member, 0) for other, frozen in self._frozen.items() if other != member}
                self._send(member, ViewTold(self.view, list(self.members), cut, reached, self._reason))
