"""The story of a run, for people to read: what every node was told and what it answered."""

from collections.abc import Iterator, Sequence

from weft.core.actions import Action, Apply, Combine, Compute, Encode, Note, Reduce, Send, SetTimer, Stop
from weft.core.events import (
    EpochFinished,
    Event,
    GradientReady,
    MembersChanged,
    PortionAsked,
    Received,
    Reduced,
    Returned,
    Started,
    StepFinished,
    TimerFired,
)
from weft.core.names import Buffer, NodeId
from weft.core.world import World
from weft.fuzz.evidence import Evidence
from weft.fuzz.scenario import Scenario


def opening(scenario: Scenario) -> Iterator[str]:
    """The world and what will go wrong in it."""
    over = f" over {scenario.collective}" if scenario.collective else ""
    if scenario.compress is not None:
        over = f" + {scenario.compress}" + (f" by '{scenario.scheme}'" if scenario.scheme else "") + over
    yield f"seed {scenario.seed}: {scenario.strategy}{over}, {scenario.num_workers} workers, {scenario.num_steps} steps"
    for number, fault in enumerate(scenario.faults.schedule):
        yield f"  fault {number}: {fault}"


def tell(evidence: Evidence, until_s: float | None = None, node: NodeId | None = None) -> Iterator[str]:
    """A line for each event and each action, up to a time and of one node if asked for; views as they were decided."""
    world = evidence.world
    views = iter(evidence.views[1:])
    upcoming = next(views, None)
    for now_ns, who, event, actions in evidence.recording.entries:
        while upcoming is not None and upcoming.since_ns <= now_ns:
            names = ", ".join(world.name(member) for member in upcoming.members)
            yield f"{upcoming.since_ns / 1e9:11.6f} s  view {upcoming.number}: {upcoming.reason} (left: {names})"
            upcoming = next(views, None)
        if until_s is not None and now_ns > until_s * 1e9:
            return
        if node is None or node == who:
            yield f"{now_ns / 1e9:11.6f} s  {world.name(who):9}  {_said(event, world)}"
            yield from (f"{'':25}-> {line}" for line in _answered(actions, world))


def _buffer(buffer: Buffer) -> str:
    part = "" if buffer.part is None else f" part {buffer.part.which} of {buffer.part.of}"
    return f"{buffer.slot}[{buffer.bucket}]{part}"


def _said(event: Event, world: World) -> str:
    if isinstance(event, Started):
        return f"started in view {event.view}"
    if isinstance(event, GradientReady):
        return f"gradient[{event.bucket}] of step {event.step} is ready ({event.samples:g} samples)"
    if isinstance(event, StepFinished):
        return f"finished step {event.step} ({event.samples:g} samples)"
    if isinstance(event, PortionAsked):
        return f"asked for one of the {event.num_portions} portions of share {event.share}"
    if isinstance(event, EpochFinished):
        return f"reported epoch {event.epoch}: {dict(event.numbers)}"
    if isinstance(event, Received):
        return f"received {_message(event)} from {world.name(event.source)}"
    if isinstance(event, Returned):
        return f"got back {_message(event)} for {world.name(event.target)}, sent in view {event.view}"
    if isinstance(event, Reduced):
        return f"{_buffer(event.buffer)} was reduced at clock {event.clock} (weight {event.weight:g})"
    if isinstance(event, TimerFired):
        return f"timer '{event.name}' fired"
    assert isinstance(event, MembersChanged)
    return f"heard of view {event.view}: {event.reason}"


def _message(message: Received | Returned | Send) -> str:
    data = f" {dict(message.data)}" if message.data is not None else ""
    return f"'{message.kind}' [{message.bucket}] of clock {message.clock} (weight {message.weight:g}){data}"


def _answered(actions: Sequence[Action], world: World) -> Iterator[str]:
    for action in actions:
        if isinstance(action, Compute):
            portion = "" if action.portion is None else f" on portion {action.portion}"
            yield f"compute step {action.step}{portion}"
        elif isinstance(action, Send):
            body = f" with {_buffer(action.body)}" if action.body is not None else ""
            yield f"send {_message(action)} to {world.name(action.to)}{body}"
        elif isinstance(action, Reduce):
            group = ", ".join(map(str, action.group))
            yield f"reduce {_buffer(action.buffer)} ({action.op}, weight {action.weight:g}) with workers {group}"
        elif isinstance(action, Combine):
            yield _combined(action)
        elif isinstance(action, Encode):
            rest = f", the rest stays in {_buffer(action.residual)}" if action.residual is not None else ""
            yield f"encode {_buffer(action.source)} as {_buffer(action.into)}{rest}"
        elif isinstance(action, Apply):
            where = f"{_buffer(action.gradient)} to {_buffer(action.into)}"
            yield f"apply {where} by '{action.rule}', scale {action.scale:g}"
        elif isinstance(action, SetTimer):
            yield f"set timer '{action.name}' for {action.at:.6f} s"
        elif isinstance(action, Note):
            yield f"note {action.name} = {action.value:g}"
        else:
            assert isinstance(action, Stop)
            yield f"stop: {action.reason}"


def _combined(action: Combine) -> str:
    into = _buffer(action.into)
    if action.add is None:
        return f"{into} = {action.keep:g} * {into}"
    times = f" * {_buffer(action.times)}" if action.times is not None else ""
    kept = f"{action.keep:g} * {into} + " if action.keep else ""
    return f"{into} = {kept}{action.scale:g} * {_buffer(action.add)}{times}"
