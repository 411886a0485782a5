"""Kills workers and launchers at random moments, and measures whether everything ends: `make soak`.

Bars: a run whose worker was killed ends with code 1 within 2 s and names that worker; of a run whose
launcher was killed nothing is left after 2 s. Prints one line for each kill, then a summary; exit code 1
if a bar was missed.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random
from statistics import median

from launches import MORTAL_FOREVER, launched

from weft.config.registry import STRATEGIES
from weft.runtime.wires import TRANSPORTS

BAR_S = 2.0
NUM_WORKERS = 3
AGE_S_MAX = 1.5
"""The launcher is killed at an age up to this: workers are being born, join, or train."""


@dataclass(frozen=True)
class Kill:
    """What came of one kill."""

    what: str
    took_s: float
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what:64s} {self.took_s:6.3f} s  {', '.join(self.faults) or 'ok'}"


def kill_a_worker(folder: Path, rng: Random) -> Kill:
    """Let one worker die; see how the run ends."""
    strategy, transport, setting = _setting(rng)
    rank, age_s = rng.randrange(NUM_WORKERS), rng.uniform(0, 0.4)
    with launched(_script(folder), *setting, "--", rank, age_s) as run:
        code = run.end()
        took_s = run.took_s if "died at" in run.text else inf
        left = run.leftovers(0.0)
        faults = _faults(code=code == 1, name=f"NodeLost: worker {rank} " in run.text, gone=not left)
    return Kill(f"worker {rank} after {age_s:.3f} s, {strategy} over {transport}", took_s, (*faults, *_late(took_s)))


def kill_the_launcher(folder: Path, rng: Random) -> Kill:
    """Kill it; see how long its processes live on."""
    strategy, transport, setting = _setting(rng)
    age_s = rng.uniform(0, AGE_S_MAX)
    with launched(_script(folder), *setting, "--", -1, 0) as run:
        time.sleep(age_s)
        killed = run.signal(signal.SIGKILL)
        run.process.wait()
        left = run.leftovers(BAR_S)
        took_s = time.monotonic() - killed
        faults = _faults(gone=not left)
    return Kill(f"launcher after {age_s:.3f} s, {strategy} over {transport}", took_s, (*faults, *_late(took_s)))


def _setting(rng: Random) -> tuple[str, str, tuple[object, ...]]:
    strategy, transport = rng.choice(sorted(STRATEGIES)), rng.choice(TRANSPORTS)
    return strategy, transport, ("-n", NUM_WORKERS, "--strategy", strategy, "--transport", transport)


def _script(folder: Path) -> Path:
    path = folder / "train.py"
    path.write_text(MORTAL_FOREVER)
    return path


def _faults(*, gone: bool, code: bool = True, name: bool = True) -> tuple[str, ...]:
    wrong = {"wrong exit code": not code, "wrong name": not name, "something is left": not gone}
    return tuple(text for text, is_so in wrong.items() if is_so)


def _late(took_s: float) -> tuple[str, ...]:
    return () if took_s <= BAR_S else (f"later than {BAR_S:g} s",)


def shm_files() -> set[str]:
    """Named shared memory, of which Weft has none."""
    return set(os.listdir("/dev/shm"))


def main() -> int:
    """All kills; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=50, help="how many workers to kill")
    parser.add_argument("--launchers", type=int, default=20, help="how many launchers to kill")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, before, kills = Random(asked.seed), shm_files(), []
    with tempfile.TemporaryDirectory() as folder:
        for kill, number in ((kill_a_worker, asked.workers), (kill_the_launcher, asked.launchers)):
            for _ in range(number):
                kills.append(kill(Path(folder), rng))
                print(kills[-1], flush=True)
    for what in ("worker", "launcher"):
        times = [kill.took_s for kill in kills if kill.what.startswith(what)]
        if times:
            print(f"{len(times)} kills of a {what}: median {median(times):.3f} s, at most {max(times):.3f} s")
    named = shm_files() - before
    missed = [kill for kill in kills if kill.faults]
    left = sum("something is left" in kill.faults for kill in kills) + len(named)
    print(f"left behind: {left or 'nothing'}; bars missed: {len(missed) or 'none'}")
    return 1 if missed or named else 0


if __name__ == "__main__":
    sys.exit(main())
