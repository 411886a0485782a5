"""The supervisor's part in changes of view: it proposes, collects `Frozen`, and tells the cut (decision 0017).

| state    | entered when                        | then                                                             |
|----------|-------------------------------------|------------------------------------------------------------------|
| starting | the workers start                   | a loss ends the run, until all others have sent `LaidOut`        |
| steady   | all have; a view was told           |                                                                  |
| freezing | a member is lost                    | the others are sent `Freeze`; the next loss begins it again      |
|          | newcomers may come in (replacement.py) | the others are sent `Freeze`; newcomers are not                  |
|          | all members have answered `Frozen`  | each is sent `ViewTold`, with what it has been sent by the others |
| dealing  | all have answered `ViewTaken`       | each is sent `DealAgain`: what the lost ones did not commit       |
|          |                                     | those that leave in order are sent `Depart`                      |

A member that is lost before it has answered `ViewTaken` may have begun a share that no other knows of. So nothing is
dealt before all members of the last view have answered, those whose scripts have ended, too.
"""

from collections.abc import Callable, Sequence

import msgspec

from weft.data.share_records import Reached
from weft.runtime.messages import Message
from weft.runtime.view_messages import DealAgain, Depart, Freeze, Frozen, ViewTaken, ViewTold

NOTHING = Reached(0, {})


class Views:
    """The members of a run, by rank, and the number of their view."""

    def __init__(self, num_workers: int, send: Callable[[int, Message], None]) -> None:
        self.view = 0
        self.members = list(range(num_workers))
        self.is_freezing = False
        self._send = send
        self._laid_out: dict[int, int] = {}
        """The workers that have laid out, and the ports on which they listen."""
        self._frozen: dict[int, Frozen] = {}
        self._lost: list[int] = []
        self._departing: set[int] = set()
        """Workers that leave in order: they freeze with the others, and live until these have what they have sent."""
        self._left: set[int] = set()
        """Members whose scripts have ended, and without which the others go on."""
        self._reason = ""
        self.newcomers: list[int] = []
        """Those of the view that is to be told, or is told and not dealt yet."""
        self._undealt: set[int] = set()
        """Newcomers, members or lost since, that have not been dealt any samples yet."""
        self._settled = 0
        """The last view in which all was dealt."""
        self._reached: dict[int, Reached] = {}
        """How far the lost ones were whose samples are not dealt yet: what any of the others knows to be committed."""
        self._progressed: dict[int, Reached] = {}
        """How far each worker says that it is, where there are several hosts."""
        self._taken: dict[int, ViewTaken] = {}
        """The members' answers to the last view that was told, until its samples are dealt."""

    def can_lose(self, ranks: Sequence[int]) -> bool:
        """Whether there are others, and all of them train, so that they can go on without these workers. Newcomers that
        are still coming in have nothing yet to go on with."""
        others = set(self.members).difference(ranks)
        return not others <= set(self.newcomers) and others <= self._laid_out.keys()

    @property
    def all_train(self) -> bool:
        """Whether all members have laid their models out."""
        return self._laid_out.keys() >= set(self.members)

    def lay_out(self, rank: int, port: int = 0) -> None:
        """A worker has laid its model out and is connected, or is a newcomer and listens on `port`."""
        self._laid_out[rank] = port

    def expect_progress(self) -> None:
        """There are several hosts: workers say how far they are. One that is lost before has committed nothing, unless
        another knows better."""
        self._progressed = dict.fromkeys(self.members, NOTHING)

    def progress(self, rank: int, reached: Reached) -> None:
        """A worker says how far it is, because those of other hosts cannot read it."""
        self._progressed[rank] = reached

    def lose(self, rank: int, reason: str) -> None:
        """Begin a view without worker `rank`, whose process is dead. Newcomers of a view that is not told yet do not
        come in."""
        self._know_progress(rank)
        gone = [rank, *(newcomer for newcomer in self.newcomers if newcomer != rank)] if self.is_freezing else [rank]
        self._remove(gone)
        self._lost += gone
        self._begin(reason)

    def _know_progress(self, rank: int) -> None:
        """Worker `rank` goes: what it has said of how far it was counts, because other hosts cannot read it."""
        if rank in self._progressed:
            self._know(rank, self._progressed[rank])
            self._progressed[rank] = NOTHING

    def _remove(self, gone: Sequence[int]) -> None:
        self.members = [member for member in self.members if member not in gone]
        for each in gone:
            self._laid_out.pop(each, None)
        self.newcomers = []

    def depart(self, rank: int, reason: str) -> None:
        """Begin a view without worker `rank`, which makes no further step: the others receive what it has sent, and
        then it is sent `Depart`."""
        self._know_progress(rank)
        if self.is_freezing:
            self._lost += self.newcomers
        self._remove([rank, *(self.newcomers if self.is_freezing else ())])
        self._departing.add(rank)
        self._begin(reason)

    def bury(self, rank: int, reason: str) -> None:
        """The process of worker `rank`, which has left or was leaving, is dead: nobody waits for what it has sent."""
        if rank in self._departing:
            self._departing.discard(rank)
            self._lost.append(rank)
            self._begin(reason)

    def leave(self, rank: int) -> None:
        """Begin a view without worker `rank`, whose script has ended: the others may make more steps than it. Its
        process goes on serving."""
        others = set(self.members) - {rank} - self._left
        if rank in self.members and rank not in self._left and others:
            self._left.add(rank)
            self._begin(f"the script of worker {rank} has ended")

    def welcome(self, newcomers: Sequence[int], reason: str) -> None:
        """Begin a view with these newcomers, which have taken the places of lost workers. The world is at rest."""
        self.newcomers = list(newcomers)
        self._undealt.update(newcomers)
        self._lost = [rank for rank in self._lost if rank not in newcomers]
        self.members = sorted([*self.members, *newcomers])
        self._begin(reason)

    @property
    def is_settled(self) -> bool:
        """No view is to be told, and nothing to be dealt."""
        return self._settled == self.view

    def _begin(self, reason: str) -> None:
        self._reason = reason
        self.view += 1
        self._frozen.clear()
        self._taken.clear()  # what the last view left to be dealt is dealt with this one
        self.is_freezing = True
        for member in (*self._before(), *sorted(self._departing)):
            self._send(member, Freeze(self.view, list(self._lost), self.newcomers, self._ports()))

    def _ports(self) -> dict[int, int]:
        """The ports of newcomers that use sockets."""
        return {newcomer: port for newcomer in self.newcomers if (port := self._laid_out.get(newcomer, 0))}

    def _before(self) -> list[int]:
        """The members that were there before the view that is to be told."""
        return [member for member in self.members if member not in self.newcomers]

    def hear(self, rank: int, message: Frozen) -> bool:
        """A worker has frozen; when all have, all are told the view. Returns whether they are told it now.

        An answer to an earlier `Freeze` is too late.
        """
        if message.view != self.view or rank not in (*self.members, *self._departing):
            return False
        self._frozen[rank] = message
        if not self.is_freezing or len(self._frozen) < len(self._before()) + len(self._departing):
            return False
        self.is_freezing = False
        members = [member for member in self.members if member not in self._left]
        for process in self.members:
            cut = {other: frozen.sent.get(process, 0) for other, frozen in self._frozen.items() if other != process}
            told = ViewTold(self.view, members, list(self.members), cut, self._reason)
            if self.newcomers:
                told = msgspec.structs.replace(
                    told, newcomers=self.newcomers, ports=self._ports(), places=message.places
                )
            self._send(process, told)
        return True

    def take(self, rank: int, message: ViewTaken) -> None:
        """A worker's peers know a view; when all know the last one, all are told how far the lost ones were."""
        for lost, reached in message.lost.items():
            self._know(lost, reached)
        if message.view != self.view or self.is_freezing or rank not in self.members:
            return
        self._taken[rank] = message
        if len(self._taken) == len(self.members):
            self._deal_again()

    def _know(self, lost: int, reached: Reached) -> None:
        """Somebody knows how far a lost worker was."""
        if lost not in self._undealt:  # else it never took anything
            self._reached[lost] = reached.farther(self._reached.get(lost, reached))

    def _deal_again(self) -> None:
        taking = [member for member in self.members if member not in self._left] or self.members
        members = {member: self._taken[member].reached for member in taking}
        num_begun = max(answer.reached.begun for answer in self._taken.values())
        for member in self.members:
            self._send(member, DealAgain(self.view, self._reached, members, num_begun, self.newcomers))
        self._taken.clear()
        self._reached = {}
        self._undealt.difference_update(self.members)
        self.newcomers = []
        for rank in sorted(self._departing):
            self._send(rank, Depart())
        self._lost += sorted(self._departing)
        self._departing.clear()
        self._settled = self.view
