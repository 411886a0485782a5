"""What a simulated worker runs."""

from collections.abc import Iterator

from weft.sim.program import (
    BackwardDone,
    GhostProgram,
    GhostSharer,
    GhostTaker,
    PortionWanted,
    ReportDone,
    Request,
    StepDone,
)


def test_a_ghost_asks_for_the_samples_of_each_step_and_reports_after_each_epoch() -> None:
    program = GhostProgram([8, 5], num_steps=3)
    asked = [program.resume() for _ in range(8)]
    assert asked == [
        BackwardDone(8),
        StepDone(8, None),
        BackwardDone(5),
        StepDone(5, None),
        ReportDone(0, {}),
        BackwardDone(8),
        StepDone(8, None),
        None,
    ]


def test_a_ghost_that_has_ended_stays_ended() -> None:
    program = GhostProgram([8], num_steps=0)
    assert [program.resume(), program.resume()] == [None, None]


def taken(program: GhostTaker, *portions: int | None) -> list[Request]:
    """All that a ghost asks for, when it is handed these portions."""
    asked, handed = [], list(portions)
    while (request := program.resume()) is not None:
        asked.append(request)
        if isinstance(request, PortionWanted):
            request.portion = handed.pop(0)
    return asked


def test_a_ghost_that_takes_portions_goes_on_to_the_next_epoch_when_a_share_is_over() -> None:
    assert taken(GhostTaker([8, 5], num_epochs=2, steps_max=None), 1, 0, None, None) == [
        PortionWanted(0, 2, 1),
        BackwardDone(5),
        StepDone(5, None),
        PortionWanted(0, 2, 0),
        BackwardDone(8),
        StepDone(8, None),
        PortionWanted(0, 2, None),
        ReportDone(0, {}),
        PortionWanted(1, 2, None),
        ReportDone(1, {}),
    ]


def test_a_ghost_that_has_made_its_steps_asks_for_no_further_portion() -> None:
    asked = taken(GhostTaker([8, 5], num_epochs=2, steps_max=1), 1)
    assert asked == [PortionWanted(0, 2, 1), BackwardDone(5), StepDone(5, None), ReportDone(0, {})]


def test_a_ghost_that_shares_draws_a_batch_when_it_is_to_be_computed_and_reports_after_each_share() -> None:
    drawn: list[int] = []

    def batches(*sizes: int) -> Iterator[int]:
        for size in sizes:
            drawn.append(size)
            yield size

    program = GhostSharer([batches(3, 4), batches(), batches(5)], steps_max=None)
    assert program.resume() == BackwardDone(3)
    assert drawn == [3]
    assert [program.resume() for _ in range(9)] == [
        StepDone(3, None),
        BackwardDone(4),
        StepDone(4, None),
        ReportDone(0, {}),
        ReportDone(1, {}),
        BackwardDone(5),
        StepDone(5, None),
        ReportDone(2, {}),
        None,
    ]


def test_a_ghost_that_shares_ends_with_its_last_step_though_shares_go_on() -> None:
    program = GhostSharer(([3, 4] for _ in range(1000)), steps_max=3)
    asked = [program.resume() for _ in range(9)]
    assert [request for request in asked if isinstance(request, StepDone)] == [StepDone(s, None) for s in (3, 4, 3)]
    assert asked[-2:] == [ReportDone(1, {}), None]


def test_a_newcomers_ghost_begins_anew_where_the_run_is() -> None:
    program = GhostProgram([8, 5], num_steps=3)
    program.resume()
    again = program.again()
    again.begin_at(1)
    assert [again.resume() for _ in range(3)] == [BackwardDone(5), StepDone(5, None), ReportDone(0, {})]
    assert program.resume() == StepDone(8, None), "the one before it goes on by itself"
