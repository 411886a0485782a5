"""Measures how long a script's iterations take with a single worker on this machine."""

import os
import time
from pathlib import Path
from statistics import median

from weft.adapters.torch.simulated_globals import TorchSwapper
from weft.config.extras import advice_on_import
from weft.core.errors import ConfigError, WeftError
from weft.core.leaving import lost_by
from weft.core.seat import Replica, step_alone
from weft.core.shortening import shortened
from weft.engines.real.worker_env import THREADS
from weft.interpreter import script_path
from weft.sim.program import StepDone
from weft.sim.script import JoinCalled, ScriptProgram, ScriptSeat
from weft.sim.stage import PlainSwapper, Stage


def measure(script: Path, arguments: tuple[str, ...], num_steps: int) -> float:
    """The median seconds per sample over `num_steps` iterations, optimizer included, after as many warm-up iterations.

    Libraries that the script imports get one thread, as they do in workers, unless the environment says otherwise.
    """
    if not script.is_file():
        raise ConfigError(f"script '{script}' does not exist.\n  Check the path.")
    for name in THREADS:
        os.environ.setdefault(name, "1")
    seat = ScriptSeat(0, 1, 0, 2 * num_steps, {})
    seat.saves = False
    stage = Stage(
        [PlainSwapper([str(script), *arguments], script_path(script)), TorchSwapper()],
        0,
        lambda line: None,
    )
    program = ScriptProgram(str(script), seat, stage)
    try:
        times = _times(program, script)
    except WeftError:
        raise
    except Exception as error:
        text = shortened(str(error))
        advice = advice_on_import(type(error).__name__, text)
        lost = lost_by("the script", "while it was measured", error, text + advice)
        lost.is_said = False  # what it printed was not shown
        raise lost from lost.__cause__
    finally:
        program.abandon()
        stage.leave()
    return median(times[len(times) // 2 :])


def _times(program: ScriptProgram, script: Path) -> list[float]:
    """Seconds per sample of every step."""
    replica: Replica | None = None
    times: list[float] = []
    start = time.perf_counter()
    while (request := program.resume()) is not None:
        if isinstance(request, JoinCalled):
            replica = request.replica
            replica.settle()
            start = time.perf_counter()
        if isinstance(request, StepDone) and replica is not None:
            step_alone(replica)
            now = time.perf_counter()
            if request.samples:
                times.append((now - start) / request.samples)
            start = now
    if replica is None:
        raise ConfigError(f"script '{script}' ended without calling weft.join.\n  Add worker = weft.join(...).")
    if not times:
        raise ConfigError(f"script '{script}' joined but never stepped.\n  Call optimizer.step() in its loop.")
    return times
