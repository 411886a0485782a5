"""Checks of codecs' parameters: each error names the legal range and something that works."""

from weft.core.errors import ConfigError

BLOCK_MIN, BLOCK_MAX = 8, 65536


def check_whole(codec: str, name: str, value: object, low: int, high: int, usual: int) -> None:
    """Refuse what is not a whole number of this range."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(
            f"{name} of '{codec}' is {value}, but it is a whole number from {low} to {high}.\n"
            f"  Use '{codec}({name}={usual})'."
        )


def check_block(codec: str, block: object, usual: int) -> None:
    """Refuse a block whose codes would not end with a byte."""
    check_whole(codec, "block", block, BLOCK_MIN, BLOCK_MAX, usual)
    if isinstance(block, int) and block % 8:
        raise ConfigError(
            f"block of '{codec}' is {block}, but it is a multiple of 8.\n  Use '{codec}(block={block // 8 * 8})'."
        )


def check_fraction(codec: str, value: float, usual: float) -> None:
    """Refuse a fraction that keeps nothing, or more than everything."""
    if not 0.0 < value <= 1.0:
        raise ConfigError(
            f"fraction of '{codec}' is {value}, but it is above 0 and at most 1.\n  Use '{codec}(fraction={usual})'."
        )


def check_above_zero(codec: str, name: str, value: float, usual: float) -> None:
    """Refuse a length of nothing, or of infinity."""
    if not 0.0 < value < float("inf"):
        raise ConfigError(
            f"{name} of '{codec}' is {value}, but it is a finite number above 0.\n  Use '{codec}({name}={usual})'."
        )
