"""Will it fit?"""

import pytest

from weft.core.errors import ConfigError
from weft.engines.memory import available_bytes, check_fits, resident_bytes

GIB = 2**30


def test_a_run_that_fits_with_some_headroom_is_let_through() -> None:
    assert check_fits(9, GIB, 10 * GIB) is None


def test_a_run_that_does_not_is_refused_with_the_estimate_and_what_would_fit() -> None:
    with pytest.raises(ConfigError) as refused:
        check_fits(64, GIB // 2, 10 * GIB)
    assert str(refused.value) == (
        "64 workers need about 32.0 GiB (512.0 MiB each), but 10.0 GiB are available.\n"
        "  Use -n 18 or fewer, or --dry, which needs no tensors."
    )


def test_the_machine_says_how_much_it_has_and_how_much_is_used() -> None:
    ballast = bytearray(GIB // 16)
    assert len(ballast) < resident_bytes() < 64 * GIB
    assert available_bytes() > GIB // 16
