"""Where a script stands: every call in every state goes where the table says, or is refused in words."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import IllegalCall
from weft.core.script_state import (
    ADVICE,
    BACKWARD,
    BEFORE_TRAINING,
    BEGIN,
    CALLS,
    ENDED,
    EVALUATE,
    EVALUATING,
    EXIT,
    FILL,
    FILLING,
    FILLING_FIRST,
    HEARD,
    IN_BACKWARD,
    IN_REPORT,
    IN_SAVE,
    IN_SHARE,
    IN_STEP,
    JOIN,
    JOINED,
    MOVES,
    NO_USER,
    PREPARING,
    READS_PARAMS,
    REPORT,
    REPORTING,
    RESUME,
    RUNNING,
    RUNS_BACKWARD,
    SAVE,
    SHARE,
    STARTED,
    STATES,
    STEP,
    ScriptState,
)

FROM_SCRIPT = (BACKWARD, STEP, SHARE, REPORT, SAVE)


@pytest.mark.parametrize("state", STATES)
def test_every_call_in_every_state_moves_by_the_table_or_is_refused_and_changes_nothing(state: str) -> None:
    for call in CALLS:
        script = ScriptState(state)
        if call in MOVES[state]:
            script.check(call)
            assert script.at is state, call
            script.call(call)
            assert script.at is MOVES[state][call], call
            assert script.at in STATES
            continue
        for attempt in (script.check, script.call):
            with pytest.raises(IllegalCall) as refused:
                attempt(call)
            said, advice = str(refused.value).split("\n  ")
            assert said.startswith(f"the script {call} ")
            assert said.endswith(f" it {state}.")
            assert advice.endswith("."), call
            assert script.at is state, call


def test_the_table_has_a_row_for_every_state_and_no_words_but_its_own() -> None:
    assert set(MOVES) == set(STATES)
    assert {call for row in MOVES.values() for call in row} == set(CALLS)
    assert {state for row in MOVES.values() for state in row.values()} <= set(STATES)
    assert set(STATES) > READS_PARAMS
    assert set(STATES) > BEFORE_TRAINING
    assert {state for state, row in MOVES.items() if BEGIN in row or state is STARTED} < BEFORE_TRAINING
    assert {row[FILL] for row in MOVES.values() if FILL in row} == RUNS_BACKWARD
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
    script.call(EXIT)
    script.call(EVALUATE)
    assert script.at is EVALUATING


def test_a_script_joins_with_one_model_after_another_and_begins_to_train_once() -> None:
    script, seen = ScriptState(STARTED), []
    for call in (JOIN, JOIN, FILL, RESUME, BEGIN, RESUME):
        script.call(call)
        seen.append(script.at)
    assert seen == [PREPARING, PREPARING, FILLING_FIRST, PREPARING, JOINED, RUNNING]
    for late in (JOIN, BEGIN):
        with pytest.raises(IllegalCall):
            script.call(late)


@pytest.mark.parametrize("state", STATES)
def test_a_loop_that_is_left_as_it_is_begins_by_itself_when_it_has_joined(state: str) -> None:
    script = ScriptState(state)
    script.begin()
    assert script.at is (RUNNING if state is PREPARING else state)


def test_a_state_that_is_only_passed_through_is_left_for_the_one_before_however_the_call_ends() -> None:
    script, seen = ScriptState(ENDED), []
    with suppress(ZeroDivisionError), script.during(EVALUATE):
        seen.append(script.at)
        raise ZeroDivisionError
    assert seen == [EVALUATING]
    assert script.at is ENDED
    with pytest.raises(IllegalCall), script.during(SAVE):
        raise AssertionError("a refused call has no context")
    assert script.at is ENDED


@pytest.mark.parametrize("state", [state for state in STATES if state not in (PREPARING, RUNNING)])
@pytest.mark.parametrize("call", FROM_SCRIPT)
def test_a_script_calls_only_while_it_computes(state: str, call: str) -> None:
    with pytest.raises(IllegalCall):
        ScriptState(state).check(call)


@pytest.mark.parametrize(
    ("state", "call", "message"),
    [
        (
            STARTED,
            REPORT,
            "the script called report() while it has not joined.\n  Call weft.join(model, optimizer) first.",
        ),
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
