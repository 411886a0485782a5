"""What a simulated worker runs."""

from weft.sim.program import BackwardDone, GhostProgram, GhostTaker, PortionWanted, ReportDone, StepDone


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


def taken(program: GhostTaker, *portions: int | None) -> list[object]:
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
