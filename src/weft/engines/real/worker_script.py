"""A worker's script: run as `python` would run it, with the run's seed, and its end told to the engine."""

import random
import runpy
import sys

import numpy as np

from weft.core.leaving import code_of, left_by
from weft.interpreter import script_path
from weft.runtime.messages import WorkerJob
from weft.runtime.seats.engine_seat import EngineSeat


def run_script(job: WorkerJob, seat: EngineSeat) -> None:
    """Run the user's script as a worker that has its seat; ends this process with its code, or 1, if it fails."""
    seed = random.Random(f"script/{job.seed}").getrandbits(63)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    sys.argv = [job.script, *job.arguments]
    sys.path[:] = script_path(job.script)
    try:
        try:
            runpy.run_path(job.script, run_name="__main__")
        except SystemExit as stop:
            left = left_by(stop, job.arguments, has_joined=seat.has_joined)
            if left is not None:
                raise left from None
        seat.end()
    except BaseException as error:
        seat.fail(error)
        sys.stdout.flush()
        sys.stderr.flush()
        sys.exit(code_of(error))
