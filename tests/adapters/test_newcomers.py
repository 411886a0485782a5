"""Where a newcomer's script begins, what it takes over from its sponsor's, and which scripts can take nobody in."""

import os
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pytest

from weft.adapters.newcomers import NESTED, ScriptPlace
from weft.adapters.sharing import can_share, load, store
from weft.adapters.watched_rates import UNNAMED, WatchedRates
from weft.adapters.worker import Worker
from weft.core.errors import ConfigError
from weft.core.seat import ScriptArrival
from weft.data.dealt_again import DealtAgain


class OneWorker:
    """A worker whose optimizer is `optimizer`."""

    def __init__(self, optimizer: Any = None, refusal: str = "") -> None:
        self.steps, self.last_samples, self.steps_before = 7, 32.0, 0
        self.optimizer = optimizer
        self.rates = WatchedRates(lambda: [{"lr": 0.1}])
        self.refusal = refusal
        self.asked: list[bool] = []
        """For each time that the optimizer was handed over: with its state?"""
        self.arrived: list[tuple[int, Any]] = []
        self.went_on_from: list[tuple[int, float]] = []

    def hand_over_own(self, *, with_state: bool) -> Any:
        self.asked.append(with_state)
        return self.optimizer

    def go_on_from(self, step: int, num_samples: float) -> None:
        self.went_on_from.append((step, num_samples))

    def arrive(self, step: int, optimizer: Any) -> None:
        self.arrived.append((step, optimizer))

    def refuses_newcomers(self, kept: Iterable[Any]) -> str:
        return f"{self.refusal}{[each.state for each in kept]}" if self.refusal else ""


class Kept:
    """What a script keeps between steps."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = state


class Run:
    """A seat's part: the run in which a script is, or into which it comes with `arrival`."""

    script_place: ScriptPlace

    def __init__(self, arrival: ScriptArrival | None = None, *, deals_rounds: bool = True) -> None:
        self.arrival = arrival
        self.num_arrivals = 0
        self.deals_rounds = deals_rounds
        self.shares = DealtAgain(0, 2, lambda look: look(), lambda reached: None)

    def arrive(self) -> ScriptArrival | None:
        self.num_arrivals += 1
        return self.arrival


def place(run: Run, worker: OneWorker | None = None) -> ScriptPlace:
    return ScriptPlace(cast(Worker, worker or OneWorker()), run)


def state_of(worker: OneWorker | None = None, **kept: Any) -> dict[str, Any]:
    """What a sponsor hands over that keeps objects with these states."""
    sponsor = place(Run(), worker)
    sponsor.keep({name: Kept(state) for name, state in kept.items()})
    return sponsor.hand_over(with_state=True)


def through_memory(value: Any) -> Any:
    """A value as it comes to another process."""
    fd = os.memfd_create("handed over")
    try:
        form, _ = store(fd, 0, value)
        assert form, "it has no plain form"
        return load(fd, form)
    finally:
        os.close(fd)


def test_the_seat_finds_where_the_script_is() -> None:
    run = Run()
    here = place(run)
    assert run.script_place is here


def test_who_was_there_from_the_beginning_makes_all_epochs_of_all_loops() -> None:
    run = Run()
    here = place(run)
    assert [list(here.epochs(3)), list(here.epochs(2))] == [[0, 1, 2], [0, 1]]
    assert run.num_arrivals == 1, "only the first loop may wait"


@pytest.mark.parametrize(
    ("loop", "epoch", "loops"),
    [
        (0, 0, [[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
        (0, 2, [[2], [0, 1, 2], [0, 1, 2]]),
        (1, 1, [[], [1, 2], [0, 1, 2]]),
        (2, 0, [[], [], [0, 1, 2]]),
    ],
)
def test_a_newcomer_passes_over_what_is_done_and_makes_later_loops_whole(
    loop: int, epoch: int, loops: list[list[int]]
) -> None:
    run = Run(ScriptArrival(loop, epoch))
    newcomer = place(run)
    assert [list(newcomer.epochs(3)) for _ in loops] == loops
    assert run.num_arrivals == 1


def test_a_newcomer_takes_over_steps_samples_and_the_optimizer() -> None:
    worker = OneWorker()
    place(Run(), worker).take_over(7, state_of(OneWorker([{"lr": 0.5, "betas": (0.9, 0.99)}])))
    assert (worker.went_on_from, worker.arrived) == ([(0, 32.0)], [(7, [{"lr": 0.5, "betas": (0.9, 0.99)}])])


def test_what_only_the_newcomer_keeps_is_refused_by_its_name() -> None:
    newcomer = place(Run())
    newcomer.keep({"ema": Kept(), "mine": Kept()})
    with pytest.raises(ConfigError, match=r"worker\.keep\(\.\.\.\) names mine here, but the worker that hands over"):
        newcomer.take_over(7, state_of(ema={}))


def test_who_was_there_from_the_beginning_takes_nothing_over() -> None:
    worker, kept = OneWorker(), Kept("mine")
    here = place(Run(), worker)
    here.keep({"ema": kept})
    here.epochs(2)
    assert (worker.arrived, kept.state) == ([], "mine")


@pytest.mark.parametrize("with_state", [True, False])
def test_the_optimizer_is_asked_for_its_state_only_where_the_newcomer_needs_it(with_state: bool) -> None:
    worker = OneWorker({"lr": 1.0})
    place(Run(), worker).hand_over(with_state=with_state)
    assert worker.asked == [with_state]


STATES: list[Any] = [
    {},
    [],
    (),
    None,
    {"last_epoch": 3, "_last_lr": [0.1, 0.01]},
    {0: "a", 1: {2: "b", "three": [4, (5, {6: 7})]}},
    {None: 1, True: 2, 2.5: 3, b"bytes": 4},
    {"dict": 1, "pairs": 2},
    {"pairs": [["a", 1]]},
    {"dict": {0: {"dict": {}}}},
    [{"dict": {}}, {1: {}}, ({},)],
    ({0: [{1: ({2: 3},)}]},),
]


@pytest.mark.parametrize("state", STATES, ids=repr)
def test_what_a_script_keeps_comes_back_as_it_was_whatever_its_keys_are(state: Any) -> None:
    handed = through_memory(state_of(OneWorker(state), ema=state))
    worker, kept = OneWorker(), Kept()
    newcomer = place(Run(), worker)
    newcomer.keep({"ema": kept})
    newcomer.take_over(7, handed)
    assert (repr(kept.state), repr(worker.arrived[0][1])) == (repr(state), repr(state))


def test_arrays_come_back_in_the_midst_of_it() -> None:
    state = {0: {"mean": np.arange(3.0)}, 1: [np.array(4)]}
    kept = Kept()
    newcomer = place(Run())
    newcomer.keep({"ema": kept})
    newcomer.take_over(7, through_memory(state_of(ema=state)))
    assert kept.state[0]["mean"].tolist() == [0.0, 1.0, 2.0]
    assert kept.state[1] == [np.array(4)]


def test_objects_are_taken_over_by_their_names_in_whatever_order_and_calls_they_were_kept() -> None:
    handed = state_of(scheduler={"a": 1}, ema={"b": 2})
    ema, scheduler = Kept(), Kept()
    newcomer = place(Run())
    newcomer.keep({"ema": ema})
    newcomer.keep({"scheduler": scheduler})
    newcomer.take_over(7, handed)
    assert (scheduler.state, ema.state) == ({"a": 1}, {"b": 2})


def test_what_is_handed_over_is_seen_to_have_no_plain_form_before_it_is_stored() -> None:
    assert can_share(state_of(ema={0: np.zeros(2)}))
    assert not can_share(state_of(ema={0: object()}))


def test_a_script_tells_in_which_loop_and_epoch_it_is() -> None:
    run = Run()
    here = place(run)
    told = []
    for _ in range(2):
        for epoch in here.epochs(2):
            here.begin_epoch(epoch)
            rounds = run.shares.begin(4, 1, False, None)
            told.append((run.shares.hand_over().loop, run.shares.hand_over().epoch, run.shares.hand_over().first))
            run.shares.end(rounds)
    assert told == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]


def in_a_share(run: Run, worker: OneWorker | None = None) -> ScriptPlace:
    """A script that is in a share of an epoch."""
    here = place(run, worker)
    here.epochs(2)
    here.begin_epoch(0)
    run.shares.begin(4, 1, False, None)
    return here


def test_a_script_in_a_share_of_an_epoch_takes_newcomers_in() -> None:
    assert in_a_share(Run()).refusal(with_state=False) == ""


def test_a_script_that_changes_its_learning_rate_by_what_it_does_not_name_takes_nobody_in() -> None:
    here, groups = in_a_share(Run()), [{"lr": 0.1}]
    rates = here._worker.rates = WatchedRates(lambda: groups)
    rates.begin()
    groups[0]["lr"] = 0.05
    assert here.refusal(with_state=False) == UNNAMED


NO_PLACE = "newcomers find their place only in scripts that loop by worker.epochs(...) over worker.share(...)"


def test_a_script_without_epochs_or_without_a_share_takes_nobody_in() -> None:
    run = Run()
    here = place(run)
    assert here.refusal(with_state=False) == NO_PLACE
    rounds = run.shares.begin(4, 1, False, None)
    assert here.refusal(with_state=False) == NO_PLACE, "it has no epochs"
    run.shares.end(rounds)
    here.epochs(2)
    here.begin_epoch(0)
    assert here.refusal(with_state=False) == NO_PLACE, "it is in no share"
    run.shares.begin(4, 1, False, None)
    assert here.refusal(with_state=False) == ""


def test_a_script_that_begins_a_share_within_another_takes_nobody_in_before_its_next_epoch() -> None:
    run = Run()
    here = place(run)
    here.epochs(2)
    here.begin_epoch(0)
    outer = run.shares.begin(4, 1, False, None)
    inner = run.shares.begin(4, 1, False, None)
    assert here.refusal(with_state=False) == NESTED
    run.shares.end(inner)
    assert here.refusal(with_state=False) == NESTED, "a newcomer's next share would be the inner one"
    run.shares.end(outer)
    here.begin_epoch(1)
    run.shares.begin(4, 1, False, None)
    assert here.refusal(with_state=False) == ""


def test_where_the_strategy_deals_portions_nobody_is_taken_in() -> None:
    refusal = in_a_share(Run(deals_rounds=False)).refusal(with_state=False)
    assert refusal == "under this strategy nobody knows yet which portions a newcomer would take"


def test_a_worker_may_refuse_newcomers_for_what_its_script_keeps() -> None:
    here = in_a_share(Run(), OneWorker(refusal="no newcomers with "))
    here.keep({"ema": Kept(1), "scheduler": Kept(2)})
    assert here.refusal(with_state=False) == "no newcomers with [1, 2]"
