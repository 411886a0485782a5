"""What a simulated worker runs."""

from weft.sim.program import BackwardDone, GhostProgram, ReportDone, StepDone


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
