"""How a worker's end is told."""

from weft.core.errors import ConfigError
from weft.core.shortening import CHARACTERS_MAX
from weft.runtime.seats.failure import failure


def test_a_scripts_error_brings_its_traceback_without_wefts_own_frames() -> None:
    try:
        raise ValueError("no such digit")
    except ValueError as error:
        told = failure(error, 7, "the user's iteration")
    assert (told.error, told.text, told.step, told.doing) == ("ValueError", "no such digit", 7, "the user's iteration")
    assert told.traceback.startswith("Traceback (most recent call last):\n")
    assert told.traceback.endswith("ValueError: no such digit")
    assert "test_failure.py" in told.traceback
    assert "weft/runtime" not in told.traceback


def test_an_error_of_wefts_own_explains_itself() -> None:
    told = failure(ConfigError("use less.\n  Use -n 1."), 0, "")
    assert (told.error, told.text, told.traceback) == ("ConfigError", "use less.\n  Use -n 1.", "")


def test_an_error_of_fifty_megabytes_is_cut_to_what_can_be_read() -> None:
    try:
        raise ValueError("begin" + "x" * 50_000_000 + "end")
    except ValueError as error:
        told = failure(error, 7, "the user's iteration")
    assert told.text.startswith("beginxxx")
    assert told.text.endswith("xxxend")
    assert "characters left out)" in told.text
    assert told.traceback.startswith("Traceback (most recent call last):\n")
    assert "test_failure.py" in told.traceback
    assert told.traceback.endswith("xxxend")
    assert len(told.text) + len(told.traceback) < 2 * CHARACTERS_MAX + 100
