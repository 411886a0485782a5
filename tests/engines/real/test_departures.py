"""Workers that are sent SIGTERM and leave in order, as their supervisor sees it."""

from support.processes.survival_runs import Run
from support.processes.view_talks import FAR, NEAR, Talk

from weft.config.on_loss import SHRINK
from weft.engines.real import timeouts
from weft.runtime.view_messages import CannotSurvive, DealAgain, Depart, Departs, Freeze, Frozen, ViewTold


def test_one_that_departs_freezes_with_the_others_and_these_receive_what_it_has_sent() -> None:
    talk = Talk(3)
    assert talk.depart(1) == [(rank, Freeze(1, [])) for rank in (0, 2, 1)]
    assert talk.views.members == [0, 2]
    assert talk.hear(0, 1, {1: 9, 2: 4}) == []
    assert talk.hear(2, 1, {0: 3}) == [], "what worker 1 has sent is not known"
    assert talk.hear(1, 1, {0: 5, 2: 6}) == [
        (0, ViewTold(1, [0, 2], [0, 2], {2: 3, 1: 5}, "worker 1 left")),
        (2, ViewTold(1, [0, 2], [0, 2], {0: 4, 1: 6}, "worker 1 left")),
    ]
    assert talk.take(0, 1, FAR, {1: NEAR}) == []
    dealt = DealAgain(1, {1: NEAR}, {0: FAR, 2: FAR}, 1)
    assert talk.take(2, 1, FAR, {1: NEAR}) == [(0, dealt), (2, dealt), (1, Depart())]
    assert talk.views.is_settled
    assert talk.bury(1) == [], "nobody waits for it any more"
    assert talk.lose(0) == [(2, Freeze(2, [1, 0]))]


def test_if_one_that_departs_dies_before_the_others_have_received_what_it_has_sent_they_do_not_wait_for_it() -> None:
    talk = Talk(3)
    talk.depart(1)
    for rank in (0, 1, 2):
        talk.hear(rank, 1, {})
    assert talk.bury(1) == [(rank, Freeze(2, [1])) for rank in (0, 2)]
    assert [kind for _, kind in talk.settle()] == [DealAgain(2, {}, {0: NEAR, 2: NEAR}, 1)] * 2


def test_between_hosts_what_one_that_departs_has_said_of_how_far_it_is_counts() -> None:
    talk = Talk(3)
    talk.views.expect_progress()
    talk.views.progress(1, FAR)
    talk.depart(1)
    for rank in (0, 1, 2):
        talk.hear(rank, 1, {})
    talk.take(0, 1, FAR, {})
    dealt = DealAgain(1, {1: FAR}, {0: FAR, 2: FAR}, 1)
    assert talk.take(2, 1, FAR, {}) == [(0, dealt), (2, dealt), (1, Depart())]


def test_a_worker_that_is_lost_while_another_departs_begins_the_change_again_for_all() -> None:
    talk = Talk(4)
    talk.depart(1)
    assert talk.lose(2) == [(rank, Freeze(2, [2])) for rank in (0, 3, 1)]
    for rank in (0, 3):
        assert talk.hear(rank, 2, {}) == []
    assert {rank for rank, _ in talk.hear(1, 2, {0: 1})} == {0, 3}


def test_newcomers_of_a_view_that_is_not_told_do_not_come_in_when_one_departs() -> None:
    talk = Talk(3)
    talk.lose(2)
    talk.settle()
    talk.welcome(2)
    assert talk.depart(1) == [(0, Freeze(3, [2])), (1, Freeze(3, [2]))]
    assert talk.views.members == [0]


def test_one_that_is_stopped_while_it_leaves_is_killed_so_that_nobody_waits_for_it() -> None:
    run = Run().lay_out(0, 1, 2)
    run.survival.hear(run.workers[1], Departs())
    run.check(100.0)
    run.check(100.0 + timeouts.DEPART_S)
    assert run.killed == []
    run.check(100.1 + timeouts.DEPART_S)
    assert run.killed == [1]
    run.die(1)
    assert (0, Freeze(2, [1])) in run.check(101.0 + timeouts.DEPART_S)


def test_one_that_was_sent_sigterm_leaves_and_is_replaced_when_its_process_has_ended() -> None:
    run = Run().lay_out(0, 1, 2)
    run.survival.hear(run.workers[1], Departs())
    assert run.check() == [(rank, Freeze(1, [])) for rank in (0, 2, 1)]
    assert run.words == ["worker 1 left at step 0, after SIGTERM; 2 go on"]
    assert run.lost == [1]
    run.survival.hear(run.workers[1], Frozen(1, {}))
    run.settle()
    assert (1, Depart()) in run.sent
    run.check()
    assert run.started == [], "its process still lives"
    run.die(1, code=0)
    run.check()
    assert run.started == [1]
    assert [loss.cause for loss in run.survival.losses.all] == ["SIGTERM"]


def test_one_that_leaves_and_dies_meanwhile_is_not_waited_for() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.survival.hear(run.workers[1], Departs())
    run.check()
    run.die(1)
    assert run.check() == [(rank, Freeze(2, [1])) for rank in (0, 2)]
    assert run.lost == [1], "once"


def test_one_that_wants_to_leave_waits_until_the_others_have_laid_out() -> None:
    run = Run(SHRINK).lay_out(0, 1)
    run.survival.hear(run.workers[1], Departs())
    assert run.check() == []
    run.lay_out(2)
    assert run.check()[0] == (0, Freeze(1, []))


def test_one_that_dies_before_it_may_leave_is_lost_as_others_are() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.survival.hear(run.workers[1], Departs())
    run.die(1)
    run.check()
    assert [loss.cause for loss in run.survival.losses.all] == ["killed by signal 9 (SIGKILL)"]


def test_if_the_last_one_wants_to_leave_the_run_is_to_stop() -> None:
    run = Run(SHRINK, 2).lay_out(0, 1)
    run.lose(0)
    assert not run.survival.asks_to_stop
    run.survival.hear(run.workers[1], Departs())
    assert run.check() == []
    assert run.survival.asks_to_stop


def test_in_a_run_that_is_stopping_nobody_leaves_alone() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.survival.hear(run.workers[1], Departs())
    run.survival.check(0.0, is_stopping=True)
    assert run.lost == []


def test_one_without_which_the_run_could_not_go_on_does_not_leave_alone() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.survival.hear(run.workers[0], CannotSurvive("nobody knows what it had"))
    run.survival.hear(run.workers[1], Departs())
    assert run.check() == []
    assert (run.lost, run.survival.asks_to_stop) == ([], True)
