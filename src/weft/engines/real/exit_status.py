"""Describes in words how a process ended."""

import signal


def how_it_ended(code: int | None) -> str:
    """`code` in words. Negative codes are signals, as in `os.waitstatus_to_exitcode`; None: it is not known."""
    if code is None:
        return "its process has ended"
    if code >= 0:
        return f"its process ended with code {code}"
    names = {int(each): f" ({each.name})" for each in signal.Signals}  # real-time signals have no names
    return f"killed by signal {-code}{names.get(-code, '')}"
