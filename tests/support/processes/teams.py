"""A worker of three whose members may change: the test is its engine, its runtime and its script."""

from collections.abc import Callable
from threading import RLock
from types import SimpleNamespace

from support.processes.records import job_with
from weft.core.script_state import RUNNING, ScriptState
from weft.data.share_records import Reached
from weft.runtime.messages import Message
from weft.runtime.seats.survivor import Survivor, ToSurvivor
from weft.runtime.view_messages import Freeze, HandedOver, ViewTold

SENT = {1: 4, 2: 7}
"""How many frames the worker has sent to each other one when it freezes."""
RECEIVED = {1: 3, 2: 6}
PLACES = [0, 1, 2, 0]
"""The process of each node: there is one server."""


class OneChange:
    """The view change of a process to which nothing is to come: the view is told as soon as it is cut."""

    on_frozen: Callable[[Freeze, dict[int, int]], None]
    on_view: Callable[[ViewTold], None]
    on_unreached: Callable[[list[int]], None]

    def __init__(self) -> None:
        self.entered: list[int] = []
        """The views with which this process came in."""

    def freeze(self, order: Freeze) -> None:
        self.on_frozen(order, dict(SENT))

    def cut(self, told: ViewTold) -> None:
        self.on_view(told)

    def enter(self, told: ViewTold) -> None:
        self.entered.append(told.view)
        self.on_view(told)


class Team:
    """Worker `rank` of three, of which the test is the engine, the runtime and the script."""

    def __init__(
        self,
        *,
        keeps_equal: bool = True,
        holds_user: bool = False,
        at: str = RUNNING,
        first_view: int = 0,
        rank: int = 0,
        keeps_step: bool = True,
        deals_portions: bool = False,
        is_idle: bool = True,
    ) -> None:
        self.script = ScriptState(at)
        self.said: list[Message] = []
        self.to_come: list[ToSurvivor] = []
        self.num_waits = self.num_given = 0
        self.passed_over: list[int] = []
        self.published: list[Reached] = []
        self.job = job_with(rank=rank, num_workers=3, first_view=first_view)
        self.step = 5
        self.survivor = Survivor(self, self.said.append, RLock())
        self.others = {1: Reached(4, {3: 1}), 2: Reached(4, {3: 2})}
        self.view_change = OneChange()
        strategy = {"keeps_replicas_equal": keeps_equal, "keeps_step": keeps_step, "deals_portions": deals_portions}
        self.runtime = SimpleNamespace(
            strategy=SimpleNamespace(**strategy, rest_period=4),
            world=SimpleNamespace(trainable=(0, 1)),
            driver=SimpleNamespace(view_change=self.view_change, is_idle=is_idle, shared_params=None),
            worker=SimpleNamespace(id=rank, computes=None, peer=SimpleNamespace(holds_user=holds_user)),
            publish=self.published.append,
            published=self.others.__getitem__,
            traffic=lambda: (dict(SENT), dict(RECEIVED)),
            places=lambda: list(PLACES),
        )

    def wait_in_share(self, done: Callable[[], bool]) -> None:
        self.num_waits += 1
        while not done():
            self.survivor.hear(self.to_come.pop(0))

    hands_state = leaves = False

    def hand_over(self, told: ViewTold) -> HandedOver:
        return HandedOver(told.view, self.survivor.shares.hand_over(), 3, 1, 2, b"state")

    def rest_in_share(self) -> None:
        self.survivor.rest.stop(self.step, self.wait_in_share)

    def come_in(self) -> None: ...

    depart = come_in

    def begin(self, port: int = 0) -> "Team":
        self.survivor.begin(self.runtime, port)  # type: ignore[arg-type]
        return self

    def hear(self, *messages: ToSurvivor) -> list[Message]:
        """What the worker says to these."""
        self.said.clear()
        for message in messages:
            self.survivor.hear(message)
        return list(self.said)

    def take_one_of_two(self) -> Reached:
        """The script takes two parts of a share, and the first is committed; returns where it is then."""
        rounds = self.survivor.shares.begin(12, 2, False, None)
        rounds.take()
        self.survivor.shares.commit()
        rounds.take()
        return self.survivor.shares.reached()
