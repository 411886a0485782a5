"""The stage on which scripts take turns: what is global in a Python process, kept apart for each worker.

A worker's random states and modes stay in place until another worker enters; standard output and
error are put back whenever a script pauses, so the simulator's own printing is its own.
"""

import random
import sys
from collections.abc import Callable, Sequence
from io import TextIOBase
from types import ModuleType
from typing import Any, Protocol

from weft.core.seat import Seat, sit
from weft.core.shortening import shortened

LINE_CHARACTERS_MAX = 64 << 10
"""Of what a script prints, as in real runs."""


class Swapper(Protocol):
    """Something global of a library that each worker shall have for itself."""

    def fresh(self, seed: int) -> Any:
        """The state of a worker that has not run yet."""
        ...

    def save(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


class PlainSwapper:
    """Python's and numpy's random numbers, sys.argv, sys.path and the module __main__."""

    def __init__(self, argv: Sequence[str], path: Sequence[str]) -> None:
        self._argv = list(argv)
        self._path = list(path)

    def fresh(self, seed: int) -> Any:
        import numpy as np

        state = np.random.RandomState(seed % 2**32).get_state()
        return random.Random(seed).getstate(), state, list(self._argv), list(self._path), ModuleType("__main__")

    def save(self) -> Any:
        import numpy as np

        return random.getstate(), np.random.get_state(), sys.argv, sys.path, sys.modules["__main__"]

    def restore(self, state: Any) -> None:
        import numpy as np

        python, numpy, sys.argv, sys.path, sys.modules["__main__"] = state
        random.setstate(python)
        np.random.set_state(numpy)


class LineWriter(TextIOBase):
    """Hands whole lines to whoever shows them; those that are too long are cut in the middle."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._show(shortened(line, LINE_CHARACTERS_MAX))
        return len(text)

    def finish(self) -> None:
        """Show what was written after the last line break."""
        if self._rest:
            self.write("\n")


class Stage:
    """Lets one worker at a time have the process to itself."""

    def __init__(self, swappers: Sequence[Swapper], seed: int, show: Callable[[str], None]) -> None:
        self._swappers = swappers
        self._seed = seed
        self._outside = [swapper.save() for swapper in swappers]
        self._states: dict[int, list[Any]] = {}
        self._owner: int | None = None
        self._writer = LineWriter(self._outside_of_scripts(show))
        self._silence = LineWriter(lambda line: None)

    def enter(self, worker: int, seat: Seat, run: Callable[[], Any]) -> Any:
        """Run something as `worker`; worker 0 is heard, the others are silent."""
        if self._owner != worker:
            self._settle()
            states = self._states.get(worker)
            if states is None:
                # alike for all until they join, so that all split their data alike
                seed = random.Random(f"script/{self._seed}").getrandbits(63)
                states = [swapper.fresh(seed) for swapper in self._swappers]
            self._restore(states)
            self._owner = worker
        before = sys.stdout, sys.stderr, sit(seat)
        sys.stdout = self._silence if worker else self._writer
        if worker:
            sys.stderr = self._silence
        try:
            return run()
        finally:
            sys.stdout, sys.stderr, outer = before
            sit(outer)

    @staticmethod
    def _outside_of_scripts(show: Callable[[str], None]) -> Callable[[str], None]:
        """`show`, with the standard output of the process rather than that of the script that printed."""
        outside = sys.stdout

        def show_outside(line: str) -> None:
            inside, sys.stdout = sys.stdout, outside
            try:
                show(line)
            finally:
                sys.stdout = inside

        return show_outside

    def leave(self) -> None:
        """Put back what the process had before the first worker entered."""
        self._writer.finish()
        self._settle()
        self._restore(self._outside)

    def _settle(self) -> None:
        if self._owner is not None:
            self._states[self._owner] = [swapper.save() for swapper in self._swappers]
            self._owner = None

    def _restore(self, states: list[Any]) -> None:
        for swapper, state in zip(self._swappers, states, strict=True):
            swapper.restore(state)
