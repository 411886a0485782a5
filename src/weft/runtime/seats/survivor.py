"""A worker's part when members change: it says how far its script is, and deals samples again.

| order | this worker                                                                      | its script          |
|-------|----------------------------------------------------------------------------------|---------------------|
| 1     | freezes and says what it has sent (`Freeze`, `Frozen`)                            | may end no share    |
| 2     | tells its peers the view (`ViewTold`), and says how far all are (`ViewTaken`)     | may end no share    |
| 3     | adds what the lost ones have not committed to the open shares (`DealAgain`)       | goes on with these  |

Where reductions are messages, one may have ended for some workers and not for others when the view changes, and ends
for these later. So how far the lost ones were is what any of the others knows to be committed.

Before newcomers come in, all scripts rest (rest_stop.py). With `ViewTold`, the lowest of the other members, their
sponsor, hands over where its script is; a newcomer takes that over before it answers `ViewTaken`. What nobody has
committed is then dealt again among all.
"""

from collections.abc import Callable
from threading import RLock
from typing import Any, Protocol, TypeVar

from weft.core.script_state import BEFORE_TRAINING, IN_BACKWARD, ScriptState
from weft.data.dealt_again import DealtAgain
from weft.data.share_records import Reached
from weft.runtime.checkpoint_messages import TakePart
from weft.runtime.messages import Message, WorkerJob
from weft.runtime.seats.departure import Departure
from weft.runtime.seats.rest_stop import RestStop
from weft.runtime.view_messages import (
    CannotSurvive,
    DealAgain,
    Depart,
    Freeze,
    Frozen,
    GoOn,
    HandedOver,
    LaidOut,
    LinkBroken,
    LookAsked,
    LookTold,
    LostBefore,
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
from weft.runtime.worker_runtime import WorkerRuntime

T = TypeVar("T")
ToSurvivor = (
    LostBefore | Freeze | ViewTold | DealAgain | Depart | RestAsked | RestAt | LookAsked | HandedOver | TakePart | GoOn
)  # fmt: skip


OWN_WRITES = "its script writes to its parameters between two steps, and a newcomer would lack what it wrote last"


class Survivable(Protocol):
    """What the seat of a worker offers its survivor."""

    job: WorkerJob
    script: ScriptState
    leaves: bool

    def depart(self) -> None:
        """End this process, which the others have left behind."""

    def wait_in_share(self, done: Callable[[], bool]) -> None:
        """Drive until a condition holds, while the script waits for data."""

    @property
    def num_given(self) -> int:
        """Number of buckets of a backward under way that are given."""
        ...

    @property
    def step(self) -> int:
        """Number of steps that the script has made."""
        ...

    @property
    def hands_state(self) -> bool:
        """Whether the optimizer's state is handed over, too."""
        ...

    def rest_in_share(self) -> None:
        """Rest, while the script waits for data."""

    def hand_over(self, told: ViewTold) -> HandedOver:
        """Where the script is, for the newcomers of a view."""
        ...

    def come_in(self) -> Any:
        """A newcomer's script begins its loop: come in, and return where it begins; None for other workers."""
        ...


class Survivor:
    """One worker in a run that goes on when others are lost. Called by the thread that drives."""

    script_place: Any
    """Where the script is (adapters/newcomers.py)."""

    def __init__(self, seat: Survivable, send: Callable[[Message], object], lock: RLock) -> None:
        """`send` takes messages to the engine. `lock` is the driving thread's."""
        job = seat.job
        self._seat, self._rank = seat, job.rank
        self._processes = list(range(job.num_workers))
        self._lock = lock
        self._script = seat.script
        self._send = send
        self._runtime: WorkerRuntime
        self._view, self._dealt = 0, 0
        """The last view that is to come or has come, and the last whose samples are dealt."""
        self._untold_view: int | None = None
        """The view of whose first step the engine is to be told."""
        self.deals_rounds = True
        """Samples of lost workers are dealt here; False where the strategy deals out portions."""
        self._is_newcomer = bool(job.first_view)
        """It has not been told its first view yet."""
        self.handed: HandedOver | None = None
        """What a newcomer has been handed over."""
        self._is_for_checkpoint = False
        """What scripts rest for, if they do: a checkpoint, or newcomers."""
        self._tells_engine = len(set(job.hosts)) > 1
        """Workers of other hosts cannot read what this one publishes."""
        self.lost_before: list[int] = []
        """Workers that were lost before all others had laid out."""
        self.rest = RestStop(send, self._refusal, lambda: self.is_dealing, is_newcomer=self._is_newcomer)
        self.departure = Departure(seat, send)
        self.shares = DealtAgain(job.rank, job.num_workers, self._when_dealt, self._publish, lock)

    @property
    def is_dealing(self) -> bool:
        """Whether members change, or samples are still to be dealt."""
        return self._dealt < self._view

    @property
    def has_come_in(self) -> bool:
        """A newcomer has taken over all that it needs."""
        return self.handed is not None and not self.is_dealing and self._runtime.worker.computes is not None

    def rest_here(self) -> None:
        """The script is between two batches: it stops here while newcomers come in or a checkpoint is taken."""
        if self._seat.step and self.script_place.is_checkpoint_due:
            with self._lock:
                self.rest.ask_itself(is_in_step=bool(self._period))
        if self.rest.is_asked and self._script.at not in BEFORE_TRAINING:
            self._seat.rest_in_share()

    def give_up(self, why: str) -> bool:
        """Tell the engine why a loss ends the run; returns False if the user has asked for more."""
        if not self._seat.job.must_survive:
            self._send(CannotSurvive(why))
        return not self._seat.job.must_survive

    def step_is_made(self, step: int, wait: Callable[[Callable[[], bool]], None]) -> None:
        """The script has made `step` steps. It leaves if it was sent SIGTERM. A script that takes no shares never comes
        to a place where a newcomer could begin: say so. Between two shares it goes on, and rests in the next."""
        if self._untold_view is not None:
            self._send(StepCommitted(self._untold_view))
            self._untold_view = None
        self.departure.step_is_made(step, self._period, wait)
        if self.rest.is_due(step) and not self.shares.are_taken:
            self._send(Resting(self.rest.number, step, self._refusal()))

    def arrive(self) -> Any:
        """Where a newcomer's script begins: blocks until it is there. None for a worker that was there before."""
        return self._seat.come_in()

    def _when_dealt(self, look: Callable[[], T]) -> T:
        """Call `look` when samples are dealt; blocks while members change."""
        with self._lock:
            if self.is_dealing:
                self._seat.wait_in_share(lambda: not self.is_dealing)
            return look()

    def begin(self, runtime: WorkerRuntime, port: int = 0) -> None:
        """The worker is laid out, and connected or listening on `port`: from now on the others can go on without it,
        and it without them."""
        self._runtime = runtime
        runtime.driver.view_change.on_frozen = self._say_frozen
        runtime.driver.view_change.on_view = self._say_taken
        runtime.driver.view_change.on_unreached = self._say_unreached
        self._send(LaidOut(port))

    def link_broke(self, rank: int) -> None:
        """The connection to another worker ended without a goodbye."""
        self._send(LinkBroken(rank))

    def hear(self, message: ToSurvivor) -> None:
        """Take a message of the engine about members that change."""
        if isinstance(message, Freeze):
            self._view = message.view
            self._runtime.driver.view_change.freeze(message)
        elif isinstance(message, ViewTold):
            self._take_view(message)
        elif isinstance(message, DealAgain):
            self._deal(message)
        elif isinstance(message, Depart):
            self.departure.grant()
        elif isinstance(message, RestAsked):
            self._is_for_checkpoint = message.is_for_checkpoint
            self.rest.ask(self._where(message.rest))
        elif isinstance(message, TakePart):
            self.rest.order = message
        elif isinstance(message, RestAt):
            self.rest.stop_at(message.step)
        elif isinstance(message, LostBefore):
            self.lost_before = message.lost
        elif isinstance(message, LookAsked):
            self._say_looked(message)
        elif isinstance(message, HandedOver):
            self.handed = message
            self.shares.take_over(message.shares)
            self._send(ViewTaken(message.view, self.shares.reached(), {}))
        else:
            self.rest.go_on()

    def _take_view(self, told: ViewTold) -> None:
        view_change = self._runtime.driver.view_change
        if not self._is_newcomer:
            view_change.cut(told)
            return
        self._is_newcomer, self._view = False, told.view
        view_change.enter(told)

    def _refusal(self) -> str:
        place, params = self.script_place, self._runtime.driver.shared_params
        if not self._is_for_checkpoint:
            why: str = place.refusal(with_state=self._seat.hands_state)
            if not why and params is not None and params.has_been_written:
                why = OWN_WRITES
        elif why := place.part.refusal:
            place.part.pass_over()
        return why

    def _where(self, rest: int) -> RestTold:
        return RestTold(rest, self._seat.step, self._period, self.rest.has_asked_itself)

    @property
    def _period(self) -> int:
        """All members stop after the same number of steps, a multiple of this; 0: each after its own."""
        strategy = self._runtime.strategy
        return strategy.rest_period if strategy.keeps_step and not strategy.deals_portions else 0

    def _say_looked(self, asked: LookAsked) -> None:
        sent, received = self._runtime.traffic()
        self._send(LookTold(asked.number, sent, received, self._runtime.driver.is_idle))

    def _say_frozen(self, order: Freeze, sent: dict[int, int]) -> None:
        self._send(Frozen(order.view, sent, self._runtime.places() if order.newcomers else []))

    def _say_unreached(self, newcomers: list[int]) -> None:
        self._send(Unreached(newcomers))

    def _say_taken(self, told: ViewTold) -> None:
        """The peers are about to be told the view. Where all make the same steps, the lost ones were as far as this
        worker is: what was reduced is committed. Elsewhere each has written down how far it was."""
        lost = [rank for rank in self._processes if rank not in told.processes]
        self._processes = told.processes
        if self._rank in told.newcomers:
            return
        self._untold_view = told.view
        self._send(ViewTaken(told.view, self.shares.reached(), self._reached(lost)))
        if told.newcomers and self._rank == min(set(told.members) - set(told.newcomers)):
            self._send(self._seat.hand_over(told))

    def _reached(self, lost: list[int]) -> dict[int, Reached]:
        runtime = self._runtime
        if not runtime.strategy.keeps_replicas_equal:
            found = {rank: runtime.published(rank) for rank in lost}
            return {rank: reached for rank, reached in found.items() if reached is not None}
        has_all_given = self._script.at is IN_BACKWARD or self._seat.num_given == len(runtime.world.trainable)
        is_reduced = has_all_given and not runtime.worker.peer.holds_user
        return dict.fromkeys(lost, self.shares.reached(is_reduced=is_reduced))

    def _deal(self, message: DealAgain) -> None:
        if message.newcomers:
            self.shares.welcome(message.newcomers, message.members, message.num_begun)
        else:
            self.shares.lose(message.lost, message.members, message.num_begun)
        self._dealt = message.view

    def _publish(self, reached: Reached) -> None:
        if self._script.at in BEFORE_TRAINING:
            return
        self._runtime.publish(reached)
        if self._tells_engine and not self._runtime.strategy.keeps_replicas_equal:
            self._send(Progressed(reached))
