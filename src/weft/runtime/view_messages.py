"""The messages between a worker process and its engine when members change: losses, and newcomers (0040, 0041)."""

from msgspec import Struct

from weft.data.share_records import HandedShares, Reached


class LaidOut(Struct, frozen=True, tag=True):
    """To the engine: this worker has laid its model out and is connected; from now on others can go on without it. A
    newcomer says it when it wants to come in."""

    port: int = 0
    """The TCP port on which it listens; 0 if it does not use sockets."""


class CannotSurvive(Struct, frozen=True, tag=True):
    """To the engine: what this script does cannot go on after a loss; the first one ends the run."""

    why: str


class LostBefore(Struct, frozen=True, tag=True):
    """To all living workers, before all of them have laid out: do not wait until these have connected."""

    lost: list[int]


class Progressed(Struct, frozen=True, tag=True):
    """To the engine, where there are several hosts and workers make steps of their own: how far this worker is."""

    reached: Reached


class Freeze(Struct, frozen=True, tag=True):
    """To all living workers: a view is to come; send no more, keep what comes, and answer with `Frozen`."""

    view: int
    """The number of the view that is to come."""
    lost: list[int]
    """All workers that are gone."""
    newcomers: list[int] = []
    """The workers that come in with this view. They have sent nothing yet."""
    ports: dict[int, int] = {}
    """The ports of newcomers that use sockets: the others connect to them."""


class Frozen(Struct, frozen=True, tag=True):
    """To the engine: this worker sends no more."""

    view: int
    sent: dict[int, int]
    """Number of frames that this process has sent to each other one since the run began."""
    places: list[int] = []
    """The process of each node, for newcomers; empty: no newcomer is to come."""


class Unreached(Struct, frozen=True, tag=True):
    """To the engine: newcomers to which this worker could not connect."""

    newcomers: list[int]


class LinkBroken(Struct, frozen=True, tag=True):
    """To the engine: this worker's connection to another one ended without a goodbye. Mostly the other is dead."""

    to: int


class ViewTold(Struct, frozen=True, tag=True):
    """To all living workers, once all have frozen: the members of the new view, and what is received before it."""

    view: int
    members: list[int]
    """The workers that take part, by rank."""
    processes: list[int]
    """The processes that live; the scripts of those that are no members have ended."""
    cut: dict[int, int]
    """Number of frames that the receiver has been sent by each living process: these it takes, and then the view."""
    reason: str
    newcomers: list[int] = []
    places: list[int] = []
    """The process of each node, for newcomers."""
    ports: dict[int, int] = {}
    """The ports of newcomers that use sockets, for the other newcomers."""


class ViewTaken(Struct, frozen=True, tag=True):
    """To the engine: this worker's peers know the view. It ends no share of data until it gets `DealAgain`."""

    view: int
    reached: Reached
    """How far its script is in its shares."""
    lost: dict[int, Reached]
    """How far each lost worker was, as far as this one knows."""


class DealAgain(Struct, frozen=True, tag=True):
    """To all members, once all have taken the view: how far the lost ones and the members are in their shares."""

    view: int
    lost: dict[int, Reached]
    members: dict[int, Reached]
    num_begun: int
    """Number of shares that any process has begun, one whose script has ended, too."""
    newcomers: list[int] = []


class StepCommitted(Struct, frozen=True, tag=True):
    """To the engine: this worker has made its first step since it took the view."""

    view: int


class Departs(Struct, frozen=True, tag=True):
    """To the engine: this worker was sent SIGTERM and has made its last step; it answers others until it gets
    `Depart`, or, if all leave, `LeaveAt`."""


class Depart(Struct, frozen=True, tag=True):
    """To a worker that wants to leave: all others have received what it sent, and go on without it; end."""


class RestAsked(Struct, frozen=True, tag=True):
    """To all members: newcomers want to come in, or a checkpoint is due; answer with `RestTold`, and pause after this
    step. Rests are numbered from 1 on."""

    rest: int
    is_for_checkpoint: bool = False


class RestTold(Struct, frozen=True, tag=True):
    """To the engine: the step that this worker is making."""

    rest: int
    step: int
    period: int
    """All members stop before the same step, a multiple of this; 0: each stops before its own next one."""
    has_stopped: bool = False
    """It has stopped before that step, because a checkpoint is due there."""


class RestAt(Struct, frozen=True, tag=True):
    """To a member: stop when `step` steps are made, and answer with `Resting`."""

    step: int


class Resting(Struct, frozen=True, tag=True):
    """To the engine: this worker's script has stopped; the worker still answers others. Of a newcomer: it has taken
    over all that it needs, and is about to make its first step."""

    rest: int
    """The number of the rest; 0 from a newcomer."""
    step: int
    refusal: str = ""
    """Why a newcomer's script cannot begin where this one is; empty if it can."""


class LookAsked(Struct, frozen=True, tag=True):
    """To all members, when all rest: is anything under way? Answer with `LookTold`."""

    number: int


class LookTold(Struct, frozen=True, tag=True):
    """To the engine: what this process has sent to the others and received from them, since the run began."""

    number: int
    sent: dict[int, int]
    received: dict[int, int]
    is_idle: bool
    """It has nothing to do."""


class HandedOver(Struct, frozen=True, tag=True):
    """From the newcomers' sponsor to the engine, then from it to the newcomers: where the script is."""

    view: int
    shares: HandedShares
    num_reports: int
    num_saves: int
    reported_epochs: int
    """Number of epochs of which a report has told the strategy."""
    state: bytes
    """The form (adapters/sharing.py) of what the script keeps between steps; its arrays are in the memfd of
    `weft.once`."""
    sponsor: int = 0
    start: int = 0
    stop: int = 0
    """Where these arrays begin and end in the memfd of the sponsor's host."""


class PieceAsked(Struct, frozen=True, tag=True):
    """From a newcomer on another host than its sponsor's to the engine, then from it to the sponsor: asks for the bytes
    from `start` to `stop` of what was handed over."""

    sponsor: int
    newcomer: int
    start: int
    stop: int


class PieceHanded(Struct, frozen=True, tag=True):
    """From the sponsor to the engine, then from it to `newcomer`: the answer."""

    newcomer: int
    piece: bytes


class GoOn(Struct, frozen=True, tag=True):
    """To all members: the rest is over."""
