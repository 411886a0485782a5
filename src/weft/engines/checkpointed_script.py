"""The seat of a script that plain `python` has started with WEFT_CHECKPOINT: alone, with checkpoints."""

import atexit
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from weft.adapters.alone import Alone
from weft.checkpoints.manifest import RunFacts
from weft.checkpoints.taking import Checkpoints
from weft.config.options import set_options
from weft.config.settings import Settings
from weft.engines.checkpoint_plan import nothing_left, plan_checkpoints, script_digest
from weft.engines.settings_sources import settings_of

VARIABLE = "WEFT_CHECKPOINT"
ALONE = "one worker"
"""What stands for the strategy of a single worker."""


def seat_with_checkpoints() -> Alone | None:
    """The seat, if the environment names a folder. Ends the script (SystemExit) if its run has finished already."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    settings = settings_of(Settings())
    options, _ = set_options(settings.set or ())
    facts = RunFacts(ALONE, 1, 0, None, script_digest(Path(sys.argv[0])), list(sys.argv[1:]))
    planned = plan_checkpoints(Path(folder), facts, options.checkpoint.every)
    seat = Alone()
    for text in planned.told:
        seat.tell(text)
    if planned.finished is not None:
        seat.tell(nothing_left(planned.plan.folder, planned.finished))
        raise SystemExit(0)
    seat.checkpoints = checkpoints = Checkpoints(planned.plan, seat.tell)
    for number in (signal.SIGINT, signal.SIGTERM):
        LeaveBySignal(seat, number)
    atexit.register(_end, seat, checkpoints)
    return seat


class LeaveBySignal:
    """Answers a first signal: finish the step, write a checkpoint, leave with 0. The next one acts as without Weft."""

    def __init__(self, seat: Alone, number: int) -> None:
        self._seat = seat
        self._before = signal.getsignal(number)
        signal.signal(number, self._answer)

    def _answer(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, self._before)
        face: Any = self._seat.face
        if face is None or not face.steps:  # nothing is there to be kept
            signal.raise_signal(number)
            return
        self._seat.leaves, self._seat.steps_max = True, 0
        self._seat.tell("stopping after this step, with a checkpoint; once more to stop now")


def _end(seat: Alone, checkpoints: Checkpoints) -> None:
    """At the end of the process: say in the last checkpoint that the script has ended, unless by an exception."""
    if getattr(sys, "last_type", None) is None:
        checkpoints.on_end(seat.leaves)
