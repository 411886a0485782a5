"""How a process ended, in words."""

import pytest

from weft.engines.real.exit_status import how_it_ended


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, "its process has ended"),
        (0, "its process ended with code 0"),
        (-9, "killed by signal 9 (SIGKILL)"),
        (-40, "killed by signal 40"),
    ],
)
def test_exit_codes_are_said_in_words(code: int | None, said: str) -> None:
    assert how_it_ended(code) == said
