"""How far a long command is: a line that is drawn again on a terminal, a plain one every few seconds anywhere else."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.cli.show.screen import errors

PLAIN_S = 5.0
"""How often a line is printed where there is no terminal."""


@contextmanager
def progress(text: str, interval_s: float = PLAIN_S) -> Iterator[Callable[[str], None]]:
    """Says what is being done for as long as this lasts; what it yields takes another text."""
    if errors.is_terminal:
        with errors.status(text) as status:
            yield status.update
        return
    with plain_progress(text, interval_s) as update:
        yield update


@contextmanager
def plain_progress(text: str, interval_s: float = PLAIN_S) -> Iterator[Callable[[str], None]]:
    """The same in plain lines, printed by a thread: what is measured need not know of it.

    They go to what is standard error now: simulated workers are silenced by replacing it.
    """
    began_s, told, is_over, stream = time.monotonic(), [text], threading.Event(), errors.file

    def tell() -> None:
        while not is_over.wait(interval_s):
            print(f"{time.monotonic() - began_s:.0f} s  {told[0]}", file=stream, flush=True)

    thread = threading.Thread(target=tell, name="weft progress", daemon=True)
    thread.start()
    try:
        yield lambda another: told.__setitem__(0, another)
    finally:
        is_over.set()
        thread.join()
