"""The driver in virtual time: what it tells peers, when, and what it refuses."""

import re
from collections.abc import Generator
from random import Random
from typing import Any

import numpy as np
import pytest
from support.peers.puppets import Answer, Puppet, Puppets

import weft
from weft.adapters.array_replica import ArrayReplica
from weft.core.actions import MEAN, Action, Apply, Compute, Note, Reduce, Send, SetTimer, Stop, copy
from weft.core.events import (
    DATA_BYTES_MAX,
    EpochFinished,
    Event,
    GradientReady,
    Received,
    Started,
    StepFinished,
    TimerFired,
)
from weft.core.names import Bucket, Buffer, NodeId, Roles
from weft.core.peer import Peer
from weft.core.world import World
from weft.cost.links import Link
from weft.sim.compute import PerSample, Trace
from weft.sim.facts import Facts
from weft.sim.network import HostLinks
from weft.sim.program import BackwardDone, GhostProgram, ReportDone, Request, SaveAsked, StepDone
from weft.sim.reports import NoReports
from weft.sim.simulation import Simulation
from weft.store.ghost import GhostStore
from weft.testing.worlds import Ran, simulate_arrays, training

PARAMS, GRADIENT, INBOX = (Buffer(slot, 0) for slot in ("params", "gradient", "inbox"))
NO_TIME = Link(0.0, float("inf"))


def run(answer: Answer, num_workers: int = 1, num_servers: int = 0, **options: Any) -> Ran:
    return simulate_arrays(Puppets(answer, num_servers), num_workers, **options)


def at_start(*actions: Action) -> Answer:
    """Worker 0 does this first of all, and then trains."""
    return lambda peer, event: [*actions, Compute(0)] if isinstance(event, Started) and peer.me == 0 else None


# What peers are told, and when.


def test_a_worker_is_told_of_its_start_its_gradients_its_steps_and_its_epochs_in_order() -> None:
    ran = run(lambda peer, event: None, num_steps=2, samples=3.0, loss=lambda *_: 0.5, epoch_steps=2)
    assert ran.peer(0)._seen == [
        (0.0, Started(0)),
        (0.03, GradientReady(0, 0, 3.0)),
        (0.03, StepFinished(0, 3.0, 0.5)),
        (0.06, GradientReady(1, 0, 3.0)),
        (0.06, StepFinished(1, 3.0, 0.5)),
        (0.06, EpochFinished(0, {})),
    ]
    assert ran.facts.num_events == 6


def test_gradients_become_ready_bucket_by_bucket_while_backward_runs() -> None:
    starts = [{"a": np.zeros(3, np.float32), "b": np.zeros(1)}]
    ran = run(lambda peer, event: None, gradient=lambda worker, step, w: w, starts=starts, compute=Trace([[1.2]]))
    times = ran.peer(0).times(GradientReady)
    assert [event.bucket for event in ran.peer(0).seen(GradientReady)] == [0, 1]
    assert times == pytest.approx([1.2 * (1 / 3 + 2 / 3 * 3 / 4), 1.2])


def test_a_message_arrives_with_all_that_was_said_after_the_time_of_its_link() -> None:
    send = Send(1, "value", 7, 3, PARAMS, 2.5, {"a": 1})
    ran = run(at_start(send), num_workers=2)
    assert ran.peer(1).seen(Received) == [Received(0, "value", 7, 3, INBOX, 2.5, {"a": 1})]
    assert ran.peer(1).times(Received) == [1e-3 + 8e-6]
    assert ran.facts.bytes_sent == 8


def test_a_message_without_a_body_has_no_bytes() -> None:
    ran = run(at_start(Send(1, "word", 0, 0)), num_workers=2)
    assert ran.peer(1).times(Received) == [1e-3]
    assert ran.facts.bytes_sent == 0


def test_the_same_message_to_several_nodes_is_one_for_each() -> None:
    ran = run(at_start(*(Send(to, "value", 0, 0, PARAMS) for to in (1, 2, 1))), num_workers=3)
    assert [len(ran.peer(node).seen(Received)) for node in range(3)] == [0, 2, 1]
    assert ran.facts.bytes_sent == 3 * 8


def test_messages_still_arrive_at_a_worker_whose_script_has_ended() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(1, "value", 0, 0, PARAMS), Compute(1)]
        return [copy(PARAMS, INBOX)] if isinstance(event, Received) else None

    assert run(answer, num_workers=2, starts=[[5.0], [0.0]]).params[1] == [[5.0]]


@pytest.mark.parametrize(("kind", "rate"), [("push", 3.0), ("value", 1.0)])
def test_gradients_travel_with_their_senders_hyper_parameters_and_states_do_not(kind: str, rate: float) -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(1, kind, 0, 0, GRADIENT), Compute(1)]
        return [Apply(INBOX, PARAMS)] if isinstance(event, Received) else None

    ran = run(answer, 2, gradient=lambda *_: np.ones(1), rule=[weft.SGD(lr=3.0), weft.SGD(lr=1.0)])
    assert ran.params[1] == [[-rate]]


def test_a_timer_that_is_set_again_fires_once_at_its_last_time() -> None:
    answer = at_start(SetTimer("tea", 0.5), SetTimer("coffee", 0.25), SetTimer("tea", 0.75))
    peer = run(answer).peer(0)
    assert peer.seen(TimerFired) == [TimerFired("coffee"), TimerFired("tea")]
    assert peer.times(TimerFired) == [0.25, 0.75]


def test_a_timer_may_be_set_again_when_it_fired_and_one_for_the_past_fires_now() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished):
            return [SetTimer("tea", 0.0), Compute(1)]
        return [SetTimer("tea", 0.5)] if isinstance(event, TimerFired) and peer.now < 0.5 else None

    assert run(answer).peer(0).times(TimerFired) == [0.01, 0.5]


def test_an_epoch_is_told_once_however_often_it_is_reported() -> None:
    def script(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        yield ReportDone(0, {"loss": 1.0})
        yield ReportDone(0, {"error": 2.0})
        yield ReportDone(1, {})

    ran = run(lambda peer, event: None, script=script)
    assert ran.peer(0).seen(EpochFinished) == [EpochFinished(0, {"loss": 1.0}), EpochFinished(1, {})]
    assert ran.facts.final == {"error": 2.0, "loss": 1.0}


class Holding(Puppet):
    """Holds its user from the end of an epoch until a timer fires."""

    @property
    def holds_user(self) -> bool:
        return len(self.seen(TimerFired)) < len(self.seen(EpochFinished))


class HoldingReports(Puppets):
    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return Holding(self.answer, me, world, rng)


def test_a_report_returns_when_the_peer_lets_the_user_go_on() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [SetTimer("go on", 0.5)] if isinstance(event, EpochFinished) else None

    ran = simulate_arrays(HoldingReports(answer), 1, num_steps=2, epoch_steps=1)
    assert ran.peer(0).times(StepFinished) == [0.01, 0.51]
    assert [report["virtual_s"] for report in ran.facts.reports] == [0.5, 0.51]


def test_saving_is_handed_on_and_takes_no_time() -> None:
    asked: list[tuple[int, SaveAsked]] = []

    class Saved(NoReports):
        def save(self, worker: int, request: SaveAsked) -> None:
            asked.append((worker, request))

    class Saving(GhostProgram):
        @staticmethod
        def _run(step_samples: object, num_steps: int, first: int) -> Generator[Request, None, None]:
            yield SaveAsked("model", "best")

    facts = ghosts(programs=[Saving([], 0)], reports=Saved()).run()
    assert asked == [(0, SaveAsked("model", "best"))]
    assert facts.virtual_s == 0.0


# What it counts.


def ghosts(programs: list[GhostProgram], answer: Answer = lambda peer, event: None, **options: Any) -> Simulation:
    """Workers without tensors, between which no time passes."""
    num_workers = len(programs)
    world = World(Roles(num_workers), (Bucket(10),))
    options.setdefault("reports", NoReports())
    return Simulation(
        Puppets(answer),
        world,
        [GhostStore(world.buckets, []) for _ in programs],
        programs,
        HostLinks(range(num_workers), [NO_TIME] * num_workers, NO_TIME),
        PerSample([1.0] * num_workers),
        **options,
    )


def test_in_step_the_faster_worker_waits_for_the_slower() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, GradientReady):
            return [Reduce((0, 1), "value", event.step, GRADIENT, MEAN, 1.0)]
        return None

    facts = ghosts([GhostProgram([1], 4), GhostProgram([3], 4)], answer).run()
    assert facts.finished_s == [12.0, 12.0]
    assert facts.compute_s == [4.0, 12.0]
    assert facts.waiting_fraction == 1 - 16 / 24
    assert facts.bytes_sent == 4 * 2 * 40


def test_out_of_step_nobody_waits() -> None:
    facts = ghosts([GhostProgram([1], 4), GhostProgram([3], 4)]).run()
    assert facts.finished_s == [4.0, 12.0]
    assert facts.waiting_fraction == 0.0
    assert facts.steps == [4, 4]
    assert facts.samples == 16


def test_backward_that_runs_several_times_in_a_step_takes_the_time_of_its_new_samples() -> None:
    def script(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        for _ in range(2):
            yield BackwardDone(2.0)
            yield BackwardDone(5.0)
            yield StepDone(5.0, None)

    ran = run(lambda peer, event: None, script=script)
    assert ran.peer(0).times(GradientReady) == [0.02, 0.05, 0.07, 0.1]
    assert ran.facts.compute_s == pytest.approx([0.1])
    assert ran.facts.samples == 10.0


def test_notes_on_staleness_are_counted() -> None:
    facts = run(at_start(Note("staleness", 2.0), Note("elected", 5.0), Note("staleness", 4.0))).facts
    assert (facts.staleness_count, facts.staleness_mean, facts.staleness_max) == (2, 3.0, 4.0)


def test_whoever_looks_on_sees_every_step_as_it_is_finished() -> None:
    seen: list[tuple[list[int], float]] = []

    def on_step(facts: Facts, now_s: float) -> None:
        seen.append((list(facts.steps), now_s))

    ghosts([GhostProgram([1], 2), GhostProgram([3], 1)], on_step=on_step).run()
    assert seen == [([1, 0], 1.0), ([2, 0], 2.0), ([2, 1], 3.0)]


# How it ends.


def test_stop_ends_the_run_and_every_script_with_it() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Stop("good enough"), Compute(3)] if event == StepFinished(2, 1.0, None) else None

    ran = run(answer, num_workers=2, num_steps=100)
    assert ran.simulation.kernel.stopped_because == "good enough"
    assert ran.facts.steps == [3, 2]
    assert ran.facts.finished_s == [0.03, 0.03]
    assert ran.facts.virtual_s == 0.03


def test_a_deadlock_says_who_waits_for_what_and_who_is_missing() -> None:
    def short(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        yield from training(lambda *_: np.ones(1), 3 - rank)(rank, replica)

    with pytest.raises(weft.Deadlock) as caught:
        simulate_arrays(weft.AllReduce(), 3, script=short)
    assert str(caught.value).splitlines() == [
        "nothing can happen any more at 0.022016 s, but 2 workers have not ended.",
        "  worker 0 (step 1, waits in backward()) waits for the reduction of gradient[0] at step 1",
        "  worker 1 (step 1, waits in backward()) waits for the reduction of gradient[0] at step 1",
        "  worker 2 has ended after 1 steps",
        "  the reduction of 'gradient' at clock 1 lacks node [2]",
    ]


def test_a_deadlock_tells_of_servers_and_of_workers_that_never_computed() -> None:
    with pytest.raises(weft.Deadlock) as caught:
        run(lambda peer, event: [], num_servers=1)
    assert str(caught.value).splitlines()[1:] == [
        "  worker 0 (step 0, waits to begin) waits for the user's iteration",
        "  server 0 (step 0, has no script) waits for the user's iteration",
    ]


def test_a_script_that_raises_loses_its_node() -> None:
    def gradient(worker: int, step: int, w: np.ndarray) -> np.ndarray:
        if (worker, step) == (1, 2):
            raise ValueError("the data is gone")
        return w

    with pytest.raises(weft.NodeLost, match=r"^worker 1 raised ValueError at step 2: the data is gone$") as caught:
        simulate_arrays(weft.AllReduce(), 2, gradient, num_steps=5)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_script_that_weft_refuses_is_refused_as_it_is() -> None:
    with pytest.raises(weft.ConfigError, match=r"^the gradient of 'w' has the shape \(2,\), but the array has \(1,\)."):
        simulate_arrays(weft.AllReduce(), 1, lambda *_: np.ones(2))


# What it refuses.


@pytest.mark.parametrize("to", [-1, 3])
def test_a_message_to_nobody_is_illegal(to: int) -> None:
    send = Send(to, "value", 0, 0)
    message = re.escape(f"{send} goes to a node that is not of the world (0 to 2).\n")
    with pytest.raises(weft.IllegalAction, match=f"^{message}"):
        run(at_start(Send(1, "value", 0, 0), send), num_workers=2, num_servers=1)


def test_a_message_of_an_undeclared_kind_is_illegal() -> None:
    send = Send(1, "gossip", 0, 0)
    message = re.escape(f"{send} is not of a declared kind (push, value, welcome, word).\n")
    with pytest.raises(weft.IllegalAction, match=f"^{message}"):
        run(at_start(send), num_workers=2)


def test_data_is_small() -> None:
    fits = {"text": "x" * (DATA_BYTES_MAX - len(repr({"text": ""})))}
    assert run(at_start(Send(1, "word", 0, 0, data=fits)), 2).peer(1).seen(Received)[0].data == fits
    too_large = {"text": fits["text"] + "x"}
    message = r"^'word' carries more than 4096 bytes of data; use its body.\n"
    with pytest.raises(weft.IllegalAction, match=message):
        run(at_start(Send(1, "word", 0, 0, data=too_large)), 2)


@pytest.mark.parametrize("step", [1, -1])
def test_computing_another_step_than_the_next_is_illegal(step: int) -> None:
    message = rf"^Compute\(step={step}, portion=None\) was emitted, but the next step of worker 0 is 0.\n"
    with pytest.raises(weft.IllegalAction, match=message):
        run(lambda peer, event: [Compute(step)])


def test_a_server_has_nothing_to_compute() -> None:
    message = r"^Compute\(step=0, portion=None\) was emitted, but the next step of server 0 is 0.\n"
    with pytest.raises(weft.IllegalAction, match=message):
        run(lambda peer, event: [Compute(0)] if isinstance(event, Started) else None, num_servers=1)


def test_computing_while_the_users_iteration_is_under_way_is_illegal() -> None:
    message = r"^Compute\(.*\) was emitted, but the user's iteration is under way \(waits in backward\(\)\).\n"
    with pytest.raises(weft.IllegalAction, match=message):
        run(lambda peer, event: [Compute(0)] if isinstance(event, GradientReady) else None)


def test_computing_is_the_last_action_of_an_answer() -> None:
    message = r"^Compute\(step=0, portion=None\) must be the last action of its answer; the user runs at once.\n"
    with pytest.raises(weft.IllegalAction, match=message):
        run(lambda peer, event: [Compute(0), Note("late", 1.0)] if isinstance(event, Started) else None)


def test_an_illegal_action_comes_with_the_story_of_its_node() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Note("a", 1.0), Compute(5)] if isinstance(event, StepFinished) else None

    with pytest.raises(weft.IllegalAction) as caught:
        run(answer)
    assert caught.value.story == (
        "  the last that worker 0 saw and did:\n"
        "    0.000000 s  Started(view=0)\n"
        "        -> Compute(step=0, portion=None)\n"
        "    0.010000 s  GradientReady(step=0, bucket=0, samples=1.0)\n"
        "    0.010000 s  StepFinished(step=0, samples=1.0, loss=None)\n"
        "        -> Note(name='a', value=1.0)\n"
        "        -> Compute(step=5, portion=None)"
    )


# New incarnations.


def test_what_begins_and_ends_is_heard_of() -> None:
    heard: list[str] = []
    simulation = ghosts([GhostProgram([1], 2)])
    simulation.on_begun = lambda: heard.append("begun")
    simulation.on_ended = lambda node: heard.append(f"worker {node.id} ended")
    simulation.run()
    assert heard == ["begun", "begun", "worker 0 ended", "begun"]
