"""Newcomers whose scripts join while the others train: they are welcomed at once, and not awaited too early."""

import pytest
from support.processes.sessions import STATUS, Talk, joined

from weft.core.consensus import END
from weft.core.errors import ConfigError
from weft.runtime.messages import (
    Concluded,
    Decided,
    Order,
    ReplicaTold,
    Reported,
    Saves,
    ScriptCompleted,
    Welcome,
)

MORE = ["v (5,) float64"]
WELCOME = Welcome("gossip", [0, 0, 0])


def expecting_1(*, num_models: int = 1, has_order: bool = True) -> Talk:
    """Three workers have joined with so many models, the second is lost, and a newcomer is to take its place."""
    talk = Talk(strategy="gossip")
    talk.join(joined(), joined(), joined())
    for rank in range(3) if num_models == 2 else ():
        talk.hear(rank, joined(layout=MORE))
    if has_order:
        talk.hear(0, Order([1, 0]))
    talk.lose(1)
    talk.engine.expect_newcomer(1)
    return talk


def test_a_newcomer_that_joins_is_welcomed_at_once_and_alone_and_told_the_order() -> None:
    talk = expecting_1()
    assert talk.hear(1, joined()) == [(1, WELCOME), (1, Order([1, 0]))]
    talk.engine.expect_newcomer(1)
    assert talk.hear(1, joined()) == [(1, WELCOME), (1, Order([1, 0]))], "and so is the next one, if it dies"
    assert expecting_1(has_order=False).hear(1, joined()) == [(1, WELCOME)]


def test_a_newcomer_joins_with_the_models_of_the_others_one_after_another() -> None:
    talk = expecting_1(num_models=2)
    assert talk.hear(1, joined()) == [(1, WELCOME), (1, Order([1, 0]))]
    assert talk.hear(1, joined(layout=MORE)) == [(1, WELCOME)], "the order is told once"


@pytest.mark.parametrize(("num_before", "theirs"), [(0, "w (3,) float64"), (1, "v (5,) float64")])
def test_a_newcomer_with_another_model_is_refused(num_before: int, theirs: str) -> None:
    talk = expecting_1(num_models=2)
    for _ in range(num_before):
        talk.hear(1, joined())
    with pytest.raises(ConfigError) as refused:
        talk.hear(1, joined(layout=["w (4,) float64"]))
    assert str(refused.value).startswith(f"worker 1 joined with 'w (4,) float64' where worker 0 has '{theirs}'.")
    assert talk.sent == []


def test_once_it_is_a_member_a_newcomer_joins_with_a_further_model_together_with_the_others() -> None:
    talk = expecting_1()
    talk.hear(1, joined())
    talk.engine.welcome_newcomer(1)
    assert talk.hear(1, joined(layout=MORE)) == talk.hear(0, joined(layout=MORE)) == []
    assert talk.hear(2, joined(layout=MORE)) == [(rank, WELCOME) for rank in range(3)]


def test_a_newcomer_is_excused_from_reports_and_saves_that_others_have_made_and_from_no_later_ones() -> None:
    talk = expecting_1()
    talk.hear(0, Reported(0, 0, {"loss": 1.0}, []))
    talk.hear(0, Saves(0, path="model"))
    talk.engine.welcome_newcomer(1)
    talk.hear(2, Reported(0, 0, {"loss": 3.0}, []))
    assert talk.reports == [(0, {"loss": 2.0}, None)]
    assert talk.hear(2, Saves(0, path="model")) == [(2, Decided(True))]
    for rank in (2, 0):
        talk.hear(rank, Reported(1, 1, {"loss": 1.0}, []))
        assert talk.hear(rank, Saves(1, path="model")) == [(rank, Decided(False))]
    assert len(talk.reports) == 1
    talk.hear(1, Reported(1, 1, {"loss": 4.0}, []))
    assert talk.reports[1:] == [(1, {"loss": 2.0}, None)]
    assert talk.hear(1, Saves(1, path="model")) == [(1, Decided(True))]


def test_a_newcomer_is_the_best_only_by_a_score_of_its_own() -> None:
    talk = Talk(2)
    talk.join(joined(), joined())
    talk.hear(1, Reported(0, 0, {}, [], badness=0.25))
    talk.lose(1)
    talk.engine.expect_newcomer(1)
    talk.engine.welcome_newcomer(1)
    assert talk.hear(0, Saves(0, badness=0.5)) == [(0, Decided(True, best=0))]
    talk.hear(1, Reported(1, 0, {}, [], badness=0.125))
    assert talk.hear(0, Saves(1, badness=0.5)) == [(0, Decided(True, best=1))]


def test_a_newcomers_replica_is_compared_at_the_end() -> None:
    talk = Talk(2, strategy="allreduce")
    talk.join(joined(), joined())
    talk.lose(1)
    talk.engine.expect_newcomer(1)
    talk.engine.welcome_newcomer(1)
    for rank in range(2):
        talk.hear(rank, ReplicaTold(END, 8, {"w": 1}))
        assert bool(talk.hear(rank, ScriptCompleted(STATUS))) is (rank == 1), "all wait for it"
    for rank in range(2):
        talk.hear(rank, Concluded(None, None))
    assert talk.engine.is_over
    assert talk.engine.consensus == 0.0


def test_the_order_of_parameters_is_the_next_worker_s_if_worker_0_has_died_before_it_said_its_own() -> None:
    talk = Talk(strategy="gossip")
    talk.join(joined(), joined(), joined())
    assert talk.hear(2, Order([2, 0, 1])) == talk.hear(1, Order([1, 0, 2])) == []
    talk.engine.tell_order([0])
    assert talk.sent == [(rank, Order([1, 0, 2])) for rank in range(3)]
    assert talk.hear(0, Order([0, 1, 2])) == [], "it is told once"
