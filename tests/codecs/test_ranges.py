"""Checks of parameters."""

import pytest

from weft.codecs.ranges import check_above_zero, check_block, check_fraction, check_whole
from weft.core.errors import ConfigError


def test_errors_name_the_range_and_something_that_works() -> None:
    with pytest.raises(ConfigError, match=r"k of 'c' is 9, but it is a whole number from 1 to 8.\n  Use 'c\(k=2\)'"):
        check_whole("c", "k", 9, 1, 8, usual=2)
    with pytest.raises(ConfigError, match="k of 'c' is True, but it is a whole number"):
        check_whole("c", "k", True, 1, 8, usual=2)
    with pytest.raises(ConfigError, match=r"block of 'c' is 100, but it is a multiple of 8.\n  Use 'c\(block=96\)'"):
        check_block("c", 100, usual=512)
    with pytest.raises(ConfigError, match=r"fraction of 'c' is nan, .*\n  Use 'c\(fraction=0.1\)'"):
        check_fraction("c", float("nan"), usual=0.1)
    with pytest.raises(ConfigError, match="t of 'c' is inf, but it is a finite number above 0"):
        check_above_zero("c", "t", float("inf"), usual=1.0)


def test_what_is_in_range_passes() -> None:
    check_whole("c", "k", 8, 1, 8, usual=2)
    check_block("c", 65536, usual=512)
    check_fraction("c", 1.0, usual=0.1)
    assert check_above_zero("c", "t", 1e-30, usual=1.0) is None
