"""Where a script stands: every call in every state goes where the table says, or is refused in words."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import IllegalCall
from weft.core.script_state import (
    ADVICE,
    BACKWARD,
    BEGIN,
    CALLS,
    ENDED,
    EVALUATE,
    EVALUATING,
    EXIT,
    FILL,
    FILLING,
    HEARD,
    IN_BACKWARD,
    IN_REPORT,
    IN_SAVE,
    IN_SHARE,
    IN_STEP,
    JOINED,
    MOVES,
    NO_USER,
    READS_PARAMS,
    REPORT,
    REPORTING,
    RESUME,
    RUNNING,
    SAVE,
    SHARE,
    STATES,
    STEP,
    ScriptState,
)

FROM_SCRIPT = (BACKWARD, STEP, SHARE, REPORT, SAVE)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("call", CALLS)
def test_every_call_in_every_state_moves_by_the_table_or_is_refused_and_changes_nothing(state: str, call: str) -> None:
    script = ScriptState(state)
    if call in MOVES[state]:
        script.check(call)
        assert script.at is state
        script.call(call)
        assert script.at is MOVES[state][call]
        assert script.at in STATES
        return
    for attempt in (script.check, script.call):
        with pytest.raises(IllegalCall) as refused:
            attempt(call)
        said, advice = str(refused.value).split("\n  ")
        assert said.startswith(f"the script {call} ")
        assert said.endswith(f" it {state}.")
        assert advice.endswith(".")
        assert script.at is state


def test_the_table_has_a_row_for_every_state_and_no_words_but_its_own() -> None:
    assert set(MOVES) == set(STATES)
    assert {call for row in MOVES.values() for call in row} == set(CALLS)
    assert {state for row in MOVES.values() for state in row.values()} <= set(STATES)
    assert set(STATES) > READS_PARAMS
    assert set(STATES) > set(ADVICE)
    assert len(set(STATES)) == len(STATES)
    assert len(set(CALLS)) == len(CALLS)


@given(st.lists(st.sampled_from(CALLS)))
def test_whatever_is_called_a_script_that_computes_is_never_stuck_before_its_end(calls: list[str]) -> None:
    script = ScriptState()
    for call in calls:
        with suppress(IllegalCall):
            script.call(call)
    assert script.at in (ENDED, EVALUATING, RUNNING) or MOVES[script.at][RESUME] is RUNNING


def test_an_iteration_a_report_and_a_save_go_the_usual_way() -> None:
    script, seen = ScriptState(JOINED), []
    for call in (RESUME, SHARE, RESUME, FILL, RESUME, BACKWARD, RESUME, STEP, RESUME, REPORT, HEARD, RESUME, SAVE):
        script.call(call)
        seen.append(script.at)
    assert seen == [
        RUNNING, IN_SHARE, RUNNING, FILLING, RUNNING, IN_BACKWARD, RUNNING, IN_STEP, RUNNING, IN_REPORT, REPORTING,
        RUNNING, IN_SAVE,
    ]  # fmt: skip
    script.call(RESUME)
    script.call(BEGIN)
    assert script.at is JOINED
    script.call(RESUME)
    script.call(EXIT)
    script.call(EVALUATE)
    assert script.at is EVALUATING


@pytest.mark.parametrize("state", sorted(set(STATES) - {RUNNING}))
@pytest.mark.parametrize("call", FROM_SCRIPT)
def test_a_script_calls_only_while_it_computes(state: str, call: str) -> None:
    with pytest.raises(IllegalCall):
        ScriptState(state).check(call)


@pytest.mark.parametrize(
    ("state", "call", "message"),
    [
        (
            FILLING,
            SHARE,
            "the script called share() while it runs backward().\n"
            "  Call it after backward() has returned, not in a hook of a tensor or a module.",
        ),
        (
            IN_REPORT,
            REPORT,
            "the script called report() while it waits in report().\n"
            "  Call a worker from one thread only, one call after the other.",
        ),
        (
            EVALUATING,
            STEP,
            "the script called step() while it runs a function that it reported.\n"
            "  A reported function may only look at the model and return a number; do the rest after report().",
        ),
        (
            ENDED,
            STEP,
            "the script called step() after it has ended.\n"
            "  Call it before the script's last line; its exit handlers and threads come too late.",
        ),
        (
            NO_USER,
            BACKWARD,
            "the script called backward() while it has no script.\n  Only workers have one.",
        ),
    ],
)
def test_a_refusal_says_what_the_script_did_where_it_stood_and_what_to_do(state: str, call: str, message: str) -> None:
    with pytest.raises(IllegalCall) as refused:
        ScriptState(state).call(call)
    assert str(refused.value) == message
