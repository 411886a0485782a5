"""Who ended a run, and how to say it."""

import signal
from dataclasses import dataclass

import pytest

from weft.core import errors
from weft.core.errors import ConfigError, Deadlock, NodeLost
from weft.engines.real.failure import also, blame, describe
from weft.runtime.messages import Failed, Halted
from weft.runtime.seats.engine_seat import HALT_EXIT_CODE, OTHERS_TO_JOIN

HOST = "mill"


@dataclass
class Process:
    """A worker process that ended, or has not."""

    rank: int
    exit_code: int | None = None
    failed: Failed | None = None
    halted: Halted | None = None
    is_alive: bool = False
    has_finished: bool = False
    pid: int = 4711
    host: str = HOST
    lost: str = ""
    moment: str = "before it had joined"
    has_joined: bool = True


def failed(error: str, text: str = "it broke", step: int = 7) -> Failed:
    is_wefts = isinstance(getattr(errors, error, None), type)
    traceback = "" if is_wefts else "Traceback: line 1"
    return Failed(error, text, traceback, step, "computing")


ALIVE = Process(0, is_alive=True)
ENDED_WELL = Process(1, exit_code=0, has_finished=True)
LEFT = Process(7, exit_code=0)
HALTED = Process(2, exit_code=HALT_EXIT_CODE, halted=Halted(3, "the gradient of worker 3"))
KILLED = Process(3, exit_code=-9, moment="at step 5")
LOST = Process(4, exit_code=1, failed=failed("NodeLost"))
CUT_OFF = Process(5, exit_code=1, failed=failed("TransportError"))
RAISED = Process(6, exit_code=1, failed=failed("ValueError"))


@pytest.mark.parametrize(
    ("workers", "guilty"),
    [
        ([ALIVE, ENDED_WELL, HALTED], None),
        ([LOST, CUT_OFF, RAISED, HALTED, KILLED], KILLED),
        ([LOST, CUT_OFF, RAISED, HALTED], RAISED),
        ([HALTED, CUT_OFF, LOST], CUT_OFF),
        ([HALTED, LEFT, ENDED_WELL], LEFT),
        ([], None),
    ],
)
def test_who_died_without_a_word_is_blamed_before_who_failed_and_who_only_heard_of_it(
    workers: list[Process], guilty: Process | None
) -> None:
    assert blame(workers) is guilty


def test_a_process_that_was_killed_is_named_with_its_step_and_who_was_waiting() -> None:
    error = describe(KILLED, [ALIVE, HALTED, KILLED])
    assert type(error) is NodeLost
    assert str(error) == (
        f"worker 3 (host {HOST}, pid 4711) stopped at step 5: killed by signal 9 (SIGKILL).\n"
        "  Worker 2 was at step 3, waiting for the gradient of worker 3.\n"
        "  If nobody killed it, memory may have run out (see dmesg): use fewer workers or a smaller batch."
    )


@pytest.mark.parametrize(
    ("code", "cause", "advice"),
    [
        (3, "its process ended with code 3", "Run the script alone with python to see more."),
        (
            -signal.SIGSEGV,
            "killed by signal 11 (SIGSEGV)",
            "A library crashed in native code: run the script alone with python -X faulthandler.",
        ),
        (-40, "killed by signal 40", "Run the script alone with python to see more."),
    ],
)
def test_causes_come_with_advice(code: int, cause: str, advice: str) -> None:
    error = describe(Process(1, exit_code=code), [])
    assert str(error) == f"worker 1 (host {HOST}, pid 4711) stopped before it had joined: {cause}.\n  {advice}"


def test_a_wrong_configuration_is_said_as_if_it_had_been_found_before() -> None:
    error = describe(Process(1, 1, failed("ConfigError", "no batch_size.\n  Give it one.")), [HALTED])
    assert type(error) is ConfigError
    assert str(error) == "no batch_size.\n  Give it one."


def test_an_error_of_wefts_keeps_its_kind() -> None:
    error = describe(Process(1, 1, failed("Deadlock", "nobody moves.")), [HALTED])
    assert type(error) is Deadlock
    assert str(error) == (
        f"worker 1 (host {HOST}, pid 4711) failed at step 7: nobody moves.\n"
        "  Worker 2 was at step 3, waiting for the gradient of worker 3."
    )


@pytest.mark.parametrize("name", ["ValueError", "did_you_mean", "SomethingOfTheirOwn"])
def test_an_error_of_the_script_is_told_with_its_traceback(name: str) -> None:
    error = describe(Process(1, 1, failed(name)), [HALTED])
    assert type(error) is NodeLost
    assert error.traceback == "Traceback: line 1"
    assert str(error) == (
        f"worker 1 (host {HOST}, pid 4711) raised {name} at step 7: it broke\n"
        "  Worker 2 was at step 3, waiting for the gradient of worker 3."
    )


def test_a_module_that_an_extra_has_is_told_with_the_line_that_installs_it() -> None:
    guilty = Process(1, 1, failed("ModuleNotFoundError", "No module named 'torch'", 0), has_joined=False)
    error = describe(guilty, [])
    assert str(error) == (
        f"worker 1 (host {HOST}, pid 4711) raised ModuleNotFoundError before it joined: No module named 'torch'\n"
        "  Install it: pip install 'weft[torch]'"
    )


def test_before_they_join_workers_are_at_no_step() -> None:
    waits = Halted(0, OTHERS_TO_JOIN)
    others = [Process(0, halted=waits), Process(2, halted=waits, has_joined=False)]
    error = describe(Process(1, 1, failed("TransportError", "no way.", 0), has_joined=False), others)
    assert str(error) == (
        f"worker 1 (host {HOST}, pid 4711) failed before it joined: no way.\n"
        "  Worker 0 was waiting for the other workers to join.\n"
        "  Worker 2 had not joined yet."
    )


def test_the_guilty_one_is_not_said_to_wait() -> None:
    guilty = Process(1, 1, failed("ValueError"), halted=Halted(7, "itself"))
    assert "itself" not in str(describe(guilty, [guilty]))


def test_a_scripts_own_error_that_is_named_like_one_of_wefts_keeps_its_traceback() -> None:
    own = Failed("ConfigError", "lr must be positive", "Traceback: deep", 3, "computing")
    error = describe(Process(1, 1, own), [])
    assert isinstance(error, NodeLost)
    assert str(error).endswith("raised ConfigError at step 3: lr must be positive")
    assert error.traceback == "Traceback: deep"


def test_more_is_said_of_a_failure_but_not_of_a_wrong_configuration() -> None:
    lost = NodeLost("worker 1 stopped.")
    lost.traceback = "Traceback: deep"
    more = also(lost, ["  Worker 2 was in one place."])
    assert (str(more), type(more)) == ("worker 1 stopped.\n  Worker 2 was in one place.", NodeLost)
    assert more.traceback == "Traceback: deep"  # type: ignore[attr-defined]
    assert str(also(lost, [])) == str(more)
    assert str(also(ConfigError("no batch_size."), ["  Worker 2 sleeps."])) == "no batch_size."
