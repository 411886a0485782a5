"""How scripts leave: with codes that say failure, or not."""

import pytest

from weft.core.leaving import ScriptLeft, code_of, exit_code, in_words


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
