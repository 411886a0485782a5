"""The supervisor's part in changes of view: it proposes, collects `Frozen`, and tells the cut (decision 0017).

| state    | entered when                        | then                                                             |
|----------|-------------------------------------|------------------------------------------------------------------|
| starting | the workers start                   | a loss ends the run, until all others have sent `LaidOut`        |
| steady   | all have; a view was told           |                                                                  |
| freezing | a member is lost                    | the others are sent `Freeze`; the next loss begins it again      |
|          | all members have answered `Frozen`  | each is sent `ViewTold`, with what it has been sent by the others |
| dealing  | all have answered `ViewTaken`       | each is sent `DealAgain`: what the lost ones did not commit       |
"""

from collections.abc import Callable

from weft.data.dealt_again import Reached
from weft.runtime.messages import DealAgain, Freeze, Frozen, Message, ViewTaken, ViewTold


class Views:
    """The members of a run, by rank, and the number of their view."""

    def __init__(self, num_workers: int, send: Callable[[int, Message], None]) -> None:
        self.view = 0
        self.members = list(range(num_workers))
        self.is_freezing = False
        self._send = send
        self._laid_out: set[int] = set()
        self._frozen: dict[int, Frozen] = {}
        self._lost: list[int] = []
        self._left: set[int] = set()
        """Members whose scripts have ended, and without which the others go on."""
        self._reason = ""
        self._taken: dict[int, dict[int, ViewTaken]] = {}
        """By view that was told and is not dealt yet: the members' answers."""

    def can_lose(self, rank: int) -> bool:
        """Whether there are others, and all of them train, so that they can go on without worker `rank`."""
        others = set(self.members) - {rank}
        return bool(others) and others <= self._laid_out

    def lay_out(self, rank: int) -> None:
        """A worker has laid its model out and is connected."""
        self._laid_out.add(rank)

    def lose(self, rank: int, reason: str) -> None:
        """Begin a view without worker `rank`, whose process is dead."""
        self.members.remove(rank)
        self._lost.append(rank)
        self._begin(reason)

    def leave(self, rank: int) -> None:
        """Begin a view without worker `rank`, whose script has ended: the others may make more steps than it. Its
        process goes on serving."""
        others = set(self.members) - {rank} - self._left
        if rank in self.members and rank not in self._left and others:
            self._left.add(rank)
            self._begin(f"the script of worker {rank} has ended")

    def _begin(self, reason: str) -> None:
        self._reason = reason
        self.view += 1
        self._frozen.clear()
        self.is_freezing = True
        self._deal_again()  # the answer of one that was lost is not awaited any more
        for member in self.members:
            self._send(member, Freeze(self.view, list(self._lost)))

    def hear(self, rank: int, message: Frozen) -> bool:
        """A worker has frozen; when all have, all are told the view. Returns whether they are told it now.

        An answer to an earlier `Freeze` is too late.
        """
        if message.view != self.view or rank not in self.members:
            return False
        self._frozen[rank] = message
        if not self.is_freezing or len(self._frozen) < len(self.members):
            return False
        self.is_freezing = False
        self._taken[self.view] = {}
        members = [member for member in self.members if member not in self._left]
        for process in self.members:
            cut = {other: frozen.sent.get(process, 0) for other, frozen in self._frozen.items() if other != process}
            self._send(process, ViewTold(self.view, members, list(self.members), cut, self._reason))
        return True

    def take(self, rank: int, message: ViewTaken) -> None:
        """A worker's peers know a view; when all members' do, all are told how far the lost ones were."""
        if message.view in self._taken:
            self._taken[message.view][rank] = message
            self._deal_again()

    def _deal_again(self) -> None:
        for view, answers in sorted(self._taken.items()):
            if not set(self.members) <= answers.keys():
                return
            del self._taken[view]
            lost: dict[int, Reached] = {}
            for answer in answers.values():
                for worker, reached in answer.lost.items():
                    lost[worker] = reached if worker not in lost else lost[worker].farther(reached)
            taking = [member for member in self.members if member not in self._left] or self.members
            members = {member: answers[member].reached for member in taking}
            for member in self.members:
                self._send(member, DealAgain(view, lost, members))
