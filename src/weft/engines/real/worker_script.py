"""Runs a worker's script as `python` would, with the run's seed, and tells the engine how it ended."""

import random
import runpy
import sys

import numpy as np

from weft.core.leaving import code_of, left_by
from weft.interpreter import script_path
from weft.runtime.messages import WorkerJob
from weft.runtime.seats.engine_seat import EngineSeat


def run_script(job: WorkerJob, seat: EngineSeat) -> None:
    """Run the user's script on `seat`; if it fails, exits this process with the script's exit code, or 1."""
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
