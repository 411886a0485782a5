"""How scripts leave: with codes that say failure, or not."""

from argparse import ArgumentParser

import pytest

from weft.core.leaving import ScriptLeft, code_of, exit_code, in_words, left_by, lost_by


@pytest.mark.parametrize(
    ("code", "told"), [(None, 0), (0, 0), (False, 0), (3, 3), (True, 1), (-1, 255), (256, 1), (300, 44), ("why", 1)]
)
def test_a_process_ends_with_the_code_that_python_would_give_it_and_never_hides_a_failure(
    code: object, told: int
) -> None:
    assert exit_code(code) == told


def test_who_left_says_how_and_keeps_the_code() -> None:
    left = ScriptLeft(3)
    assert (str(left), code_of(left), code_of(ValueError())) == ("the script called sys.exit(3)", 3, 1)


def test_leaving_is_told_otherwise_than_raising() -> None:
    assert in_words("ScriptLeft", "at step 3", "the script called sys.exit(7)") == (
        "left at step 3: the script called sys.exit(7)"
    )
    assert in_words("ValueError", "at step 3", "bad luck") == "raised ValueError at step 3: bad luck"


def test_a_message_is_told_as_it_was_given() -> None:
    assert (str(ScriptLeft("no data:\nlook")), code_of(ScriptLeft("no data"))) == ("no data:\nlook", 1)


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--nosuch"], 2)])
def test_argparse_has_said_all_before_a_script_joins(arguments: list[str], code: int) -> None:
    with pytest.raises(SystemExit) as stopped:
        ArgumentParser().parse_args(arguments)
    left = left_by(stopped.value, [], has_joined=False)
    assert left is not None
    assert (left.is_said, left.exit_code) == (True, code)


@pytest.mark.parametrize(
    ("code", "arguments", "has_joined", "leaves"),
    [
        (0, ["--help"], False, True),
        (None, ["--version"], False, True),
        (0, ["--help"], True, False),
        (0, ["--epochs", "3"], False, False),
        (None, [], False, False),
        (3, [], False, True),
        ("no data", [], True, True),
    ],
)
def test_leaving_without_an_error_counts_only_for_who_asked_for_help(
    code: object, arguments: list[str], has_joined: bool, leaves: bool
) -> None:
    left = left_by(SystemExit(code), arguments, has_joined=has_joined)
    assert (left is not None) == leaves
    assert left is None or left.is_said == (not exit_code(code))


def test_who_left_has_no_cause_to_show_and_who_raised_has() -> None:
    left, error = lost_by("worker 1", "at step 2", ScriptLeft(3, is_said=True)), ValueError("bad luck")
    assert (str(left), left.exit_code, left.is_said, left.__cause__) == (
        "worker 1 left at step 2: the script called sys.exit(3)", 3, True, None,
    )  # fmt: skip
    raised = lost_by("worker 1", "at step 2", error)
    assert (str(raised), raised.exit_code, raised.is_said, raised.__cause__) == (
        "worker 1 raised ValueError at step 2: bad luck", 1, False, error,
    )  # fmt: skip
