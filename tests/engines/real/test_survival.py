"""What a supervisor does when workers are lost: who is lost together, who is killed first, and who comes anew."""

import time

import msgspec
import pytest
from support.processes.newcomers import HANDED
from support.processes.records import status_with
from support.processes.sessions import STATUS, joined
from support.processes.survival_runs import Run

from weft.config.on_loss import ON_LOSS, REPLACE, SHRINK, STOP
from weft.core.errors import NodeLost
from weft.data.share_records import Reached
from weft.engines.real import timeouts
from weft.engines.real.replacement import CAME_IN
from weft.observe.records.left_out import LeftOut
from weft.runtime.messages import Conclude, Failed, ScriptCompleted, Welcome
from weft.runtime.view_messages import (
    CannotSurvive,
    DealAgain,
    Freeze,
    Frozen,
    GoOn,
    LinkBroken,
    LostBefore,
    PieceAsked,
    PieceHanded,
    Progressed,
    Resting,
    StepCommitted,
    Unreached,
    ViewTaken,
    ViewTold,
)


def test_all_that_are_dead_are_lost_together_as_soon_as_the_others_have_laid_out() -> None:
    run = Run(SHRINK, 4).lay_out(0)
    run.die(1, 3)
    assert run.check() == [(0, LostBefore([1, 3])), (2, LostBefore([1, 3]))], "nobody waits until they have connected"
    assert run.check() == []
    assert run.lost == []
    run.lay_out(2)
    said = run.check()
    assert said[-2:] == [(0, Freeze(2, [1, 3])), (2, Freeze(2, [1, 3]))]
    assert run.lost == [1, 3]
    assert run.words[-2:] == [
        "worker 1 is lost at step 0: killed by signal 9 (SIGKILL); 2 go on",
        "worker 3 is lost at step 0: killed by signal 9 (SIGKILL); 2 go on",
    ]
    assert [worker.rank for worker in run.survival.members()] == [0, 2]
    assert run.check() == [], "they are lost once"


def test_the_last_one_goes_on_alone() -> None:
    run = Run(SHRINK, 2).lay_out(0, 1)
    run.die(1)
    run.check()
    assert run.words[-1] == "worker 1 is lost at step 0: killed by signal 9 (SIGKILL); 1 goes on"


def dealt(run: Run, *, lost: dict[int, Reached]) -> dict[int, Reached]:
    view = run.survival.views.view
    for answer in (Frozen(view, {}), ViewTaken(view, Reached(1, {}), lost)):
        for rank in run.survival.views.members:
            run.survival.hear(run.workers[rank], answer)
    message = run.sent[-1][1]
    assert isinstance(message, DealAgain)
    return message.lost


def test_of_several_hosts_a_lost_worker_was_as_far_as_it_has_said_or_others_know_and_else_nowhere() -> None:
    near, far, nowhere = Reached(1, {0: 3}), Reached(1, {0: 5}), Reached(0, {})
    run = Run(SHRINK, 6).lay_out(*range(6))
    run.survival.views.expect_progress()
    for rank, reached in ((1, near), (1, far), (2, near), (4, far)):
        run.survival.hear(run.workers[rank], Progressed(reached))
    run.die(1, 2, 3)
    run.check()
    assert dealt(run, lost={1: near, 2: far}) == {1: far, 2: far, 3: nowhere}
    run.die(4)
    run.check()
    assert dealt(run, lost={}) == {4: far}, "what is dealt is not dealt again"


def test_what_a_newcomer_of_another_host_asks_of_its_sponsor_is_passed_on_and_so_is_the_answer() -> None:
    run = Run(REPLACE).lay_out(0, 1, 2)
    run.lose(1)
    run.welcome(1)
    run.sent.clear()
    asked, handed = PieceAsked(0, 1, 64, 128), PieceHanded(1, b"piece")
    for rank, message in ((1, asked), (0, handed), (0, PieceHanded(2, b"for a member"))):
        run.survival.hear(run.workers[rank], message)
    assert run.sent == [(0, asked), (1, handed)]


def test_a_newcomer_to_which_a_member_cannot_connect_is_killed_and_that_is_told() -> None:
    run = Run(REPLACE).lay_out(0, 1, 2)
    run.lose(1)
    run.welcome(1)
    run.survival.hear(run.workers[1], Unreached([2]))
    assert run.killed == [], "a newcomer says nothing about members"
    run.survival.hear(run.workers[2], Unreached([1]))
    assert run.killed == [1]
    assert run.words[-1] == "worker 1 is ended: worker 2 could not connect to it"
    run.die(1)
    run.survival.hear(run.workers[0], Unreached([1]))
    assert run.killed == [1], "it is dead already"


def test_of_two_that_live_and_whose_connection_broke_one_is_given_up_if_neither_turns_out_dead() -> None:
    run = Run(SHRINK, 4).lay_out(*range(4))
    run.survival.hear(run.workers[1], LinkBroken(2))
    later_s = time.perf_counter() + 1.01 * timeouts.LINK_BROKEN_S
    run.check(time.perf_counter())
    assert run.killed == []
    run.check(later_s)
    assert run.killed == [2]
    run.die(2)
    run.check(later_s)
    assert run.words[-1] == "worker 2 is lost at step 0: its connection to worker 1 broke; 3 go on"
    run.survival.hear(run.workers[3], LinkBroken(2))
    run.check(later_s + 10)
    assert run.killed == [2], "a connection to one that is lost is nobody's"


def test_a_connection_that_broke_because_a_worker_died_says_nothing_more() -> None:
    run = Run(REPLACE, 3).lay_out(0, 1, 2)
    run.survival.hear(run.workers[1], LinkBroken(2))
    run.lose(2)
    run.welcome(2)
    run.check(time.perf_counter() + 2 * timeouts.LINK_BROKEN_S)
    assert run.killed == []


def test_if_nobody_can_be_spared_a_broken_connection_ends_the_run_by_name() -> None:
    run = Run(SHRINK, 3).lay_out(0, 1, 2)
    run.survival.hear(run.workers[0], CannotSurvive("its data is a stream"))
    run.survival.hear(run.workers[0], LinkBroken(1))
    with pytest.raises(NodeLost) as caught:
        run.check(time.perf_counter() + 10)
    assert str(caught.value) == (
        "worker 1 cannot go on: its connection to worker 0 broke, and the others could not go on: its data is a stream."
        "\n  Look at the network between their machines."
    )


def test_a_loss_was_told_when_all_others_have_frozen() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.die(1)
    run.check()
    run.survival.hear(run.workers[0], Frozen(1, {}))
    assert run.survival.losses.all[0].told_s is None
    run.survival.hear(run.workers[2], Frozen(1, {}))
    assert run.survival.losses.all[0].told_s is not None


def test_a_loss_is_over_when_a_step_was_made_since_its_view() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.die(1)
    run.check()
    run.settle()
    run.survival.hear(run.workers[0], StepCommitted(0))
    assert run.survival.losses.all[0].committed_s is None, "that was a step of the view before"
    run.survival.hear(run.workers[0], StepCommitted(1))
    assert run.survival.losses.all[0].committed_s is not None


def test_who_has_ended_its_process_before_all_had_concluded_is_lost_too() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.workers[1].has_finished = True
    run.die(1, code=0)
    run.check()
    assert run.words[-1] == "worker 1 is lost at step 0: its process ended with code 0; 2 go on"


def test_a_stuck_worker_is_killed_first_and_lost_when_it_is_dead() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.states = {0: "S", 1: "T", 2: "S"}
    assert run.check(0.0) == []
    late_s = timeouts.PROCESS_STOPPED_S + 1.0
    for _ in range(2):
        assert run.check(late_s) == []
        assert run.killed == [1]
    assert run.lost == []
    run.die(1)
    assert run.check(late_s) == [(0, Freeze(1, [1])), (2, Freeze(1, [1]))]
    assert run.survival.losses.all[0].cause == f"its process was stopped for {late_s:.1f} s", "not that it was killed"


@pytest.mark.parametrize("laid_out", [(), (1,), (0, 1)], ids=["nobody", "only itself", "one other"])
def test_a_stuck_worker_is_not_killed_while_the_others_could_not_go_on(laid_out: tuple[int, ...]) -> None:
    run = Run(SHRINK).lay_out(*laid_out)
    run.stay({1: "T"})
    assert run.killed == []


def test_a_newcomer_that_is_ended_because_another_is_lost_is_not_said_to_be_killed_by_a_stranger() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.welcome(1)
    assert run.survival.strikable() == {0: 100, 2: 102}, "chaos would else end them all"
    for rank in (0, 2):
        run.survival.hear(run.workers[rank], Frozen(run.survival.views.view, {}))
    run.die(2)
    run.check()
    assert run.killed == [1]
    run.die(1)
    run.check()
    assert [loss.cause for loss in run.survival.losses.all] == [*["killed by signal 9 (SIGKILL)"] * 2, CAME_IN]


def test_a_stuck_newcomer_is_killed_even_if_one_worker_is_left() -> None:
    run = Run(num_workers=2).lay_out(0, 1)
    run.lose(1)
    run.stay({0: "S", 1: "T"})
    assert (run.started, run.killed) == ([1], [1])


def test_of_workers_that_are_all_stuck_one_is_left() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.stay(dict.fromkeys(range(3), "T"))
    assert run.killed == [0, 1]


def test_nothing_is_done_where_a_loss_is_to_stop_the_run() -> None:
    run = Run(STOP).lay_out(0, 1, 2)
    run.states = {2: "T"}
    run.check(0.0)
    run.die(1)
    words = list(run.words)
    assert run.check(timeouts.PROCESS_STOPPED_S + 1.0) == []
    assert (run.lost, run.killed, run.started, run.words) == ([], [], [], words)
    assert len(run.survival.members()) == 3


@pytest.mark.parametrize(("on_loss", "started"), [(SHRINK, []), (REPLACE, [1])])
def test_a_newcomer_is_started_after_a_loss_where_that_is_asked_for(on_loss: str, started: list[int]) -> None:
    run = Run(on_loss).lay_out(0, 1, 2)
    run.die(1)
    run.check()
    assert run.started == [], "not before the view is settled"
    run.settle()
    run.check()
    assert run.started == started


def test_a_newcomer_that_joins_is_welcomed_alone_and_becomes_a_member_when_all_rest() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.sent.clear()
    run.session.hear(1, joined())
    assert run.sent == [(1, Welcome("allreduce", [0, 0, 0]))]
    run.welcome(1)
    assert run.sent == [(0, Freeze(2, [], [1])), (2, Freeze(2, [], [1]))]
    run.settle(1)
    assert [m.members for _, m in run.sent if isinstance(m, ViewTold)] == [[0, 1, 2]] * 3
    run.sent.clear()
    run.survival.hear(run.workers[0], HANDED)
    assert run.sent == [(1, HANDED)]
    assert run.replaced == []
    run.survival.hear(run.workers[1], Resting(0, 5))
    assert run.sent[1:] == [(rank, GoOn()) for rank in range(3)]
    assert run.replaced == [1]
    (loss,) = run.survival.losses.all
    assert loss.replaced_s is not None
    assert run.words[-1] == f"worker 1 is replaced after {loss.replaced_s - loss.detected_s:.1f} s"
    assert [worker.pid for worker in run.survival.members()] == [100, 201, 102]


def test_all_wait_for_a_newcomer_at_the_end_and_it_is_watched_again() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.welcome(1)
    run.settle(1)
    run.sent.clear()
    for rank in (0, 2):
        run.session.hear(rank, ScriptCompleted(STATUS))
    assert run.sent == []
    run.session.hear(1, ScriptCompleted(STATUS))
    assert run.sent == [(rank, Conclude([], [])) for rank in range(3)]
    run.watchdog.hear(status_with(rank=1), 0.0)
    stuck = run.watchdog.stuck(timeouts.WORKER_SILENT_S + 1.0, {}, {})
    assert stuck is not None
    assert stuck.rank == 1


def test_a_newcomer_that_is_lost_as_a_member_is_a_loss_of_its_own_and_is_replaced_again() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.welcome(1)
    run.settle(1)
    run.lose(1)
    assert run.lost == [1, 1]
    assert [loss.worker for loss in run.survival.losses.all] == [1, 1]
    assert run.started == [1, 1]
    run.welcome(1)
    run.settle(1)
    run.survival.hear(run.workers[1], Resting(0, 5))
    first, second = run.survival.losses.all
    assert first.replaced_s is None, "its newcomer was lost before all went on"
    assert second.replaced_s is not None


def test_a_newcomer_that_failed_is_told_with_its_reason_and_started_again() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    words = len(run.words)
    run.check()
    assert run.words[words:] == [], "it lives"
    run.die(1, code=1)
    run.check()
    assert run.words[words:] == [
        "worker 1 could not be replaced: worker 1 (host mill, pid 201) stopped before it had joined: its process ended "
        "with code 1.\n  Run the script alone with python to see more."
    ]
    assert run.started == [1, 1]
    run.workers[1].failed = Failed("ValueError", "no", "Traceback: line 1", 0, "")
    run.check()
    assert len(run.words) == words + 1, "not before its process has ended"
    run.die(1, code=1)
    run.check()
    assert run.words[-1].startswith("worker 1 could not be replaced: worker 1 (host mill, pid 201) raised ValueError")
    assert run.lost == [1], "it was no member"


def test_a_newcomer_is_killed_when_a_script_has_ended() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.session.hear(2, ScriptCompleted(STATUS))
    run.check()
    assert run.killed == [1]
    run.die(1)
    words = list(run.words)
    run.check()
    assert run.words == words, "it was not to come"


@pytest.mark.parametrize("strategy", ["allreduce", "gossip"])
def test_after_a_loss_who_has_ended_leaves_unless_replicas_are_equal(strategy: str) -> None:
    run = Run(SHRINK, strategy=strategy).lay_out(0, 1, 2)
    run.session.hear(2, ScriptCompleted(STATUS))
    run.survival.let_ended_leave()
    assert run.survival.views.view == 0, "nobody is lost"
    run.die(1)
    said = run.check()
    left = [(0, Freeze(2, [1])), (2, Freeze(2, [1]))] if strategy == "gossip" else []
    assert said == [(0, Freeze(1, [1])), (2, Freeze(1, [1])), *left]


@pytest.mark.parametrize("on_loss", ON_LOSS)
def test_others_may_go_on_without_one_that_dies_while_training_begins_if_any_lives(on_loss: str) -> None:
    run = Run(on_loss)
    assert not run.survival.others_may_go_on(run.workers[1]), "it lives"
    run.die(1)
    assert run.survival.others_may_go_on(run.workers[1]) is (on_loss != STOP)
    run.die(0)
    assert run.survival.others_may_go_on(run.workers[1]) is (on_loss != STOP)
    run.die(2)
    assert not run.survival.others_may_go_on(run.workers[1]), "nobody else lives"


def test_others_do_not_go_on_without_one_that_dies_before_all_have_joined() -> None:
    run = Run(SHRINK, num_late=1)
    run.die(1)
    assert not run.survival.others_may_go_on(run.workers[1])
    run.session.hear(2, joined())
    assert run.survival.others_may_go_on(run.workers[1])


def test_others_do_not_go_on_without_one_that_raised_nor_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    run.die(0, 1)
    run.workers[0].failed = Failed("ValueError", "no", "Traceback: line 1", 0, "")
    assert not run.survival.others_may_go_on(run.workers[0])
    assert run.survival.others_may_go_on(run.workers[1])
    monkeypatch.setattr(timeouts, "LAYING_OUT_S", 0.0)
    assert not run.survival.others_may_go_on(run.workers[1])


def test_one_whose_gradients_are_bad_is_killed_and_then_lost_with_the_cause() -> None:
    run = Run(SHRINK, 2).lay_out(0, 1)
    run.survival.hear(run.workers[0], CannotSurvive("nobody knows what it had"))
    bad = LeftOut(8, "the gradient of 'w'", 5, 4)
    run.survival.quarantine.hear(msgspec.structs.replace(STATUS, rank=1, step=8, left_out=bad))
    run.survival.quarantine.hear(msgspec.structs.replace(STATUS, rank=0, step=10))
    run.check()
    assert run.killed == []
    assert "(the others could not go on: nobody knows what it had; " in run.words[-1]
    run.survival.hear(run.workers[0], CannotSurvive(""))
    for _ in range(2):
        run.check()
    assert run.killed == [1], "once"
    run.die(1)
    run.check()
    cause = "its gradients were not finite five steps in a row (steps 4 to 8)"
    assert [(loss.worker, loss.cause) for loss in run.survival.losses.all] == [(1, cause)]
