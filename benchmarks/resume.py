"""Kills `weft run` at random moments, by seed, and lets the same command go on: `make resume`.

A run of 4 workers (allreduce, static shares) whose launcher is killed (SIGKILL) again and again, from its start to its
end, must end with the very bytes of a run that was never killed. Exit code 1 if it does not.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from weft.checkpoints.folder import steps_in

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples" / "digits_cnn.py"
NUM_WORKERS, EPOCHS, EVERY = 4, 8, "7steps"
RUN_S_MAX = 300.0


def command(folder: Path, save: Path) -> list[str]:
    """The run, with checkpoints in `folder`, and its trained model in `save`."""
    checkpoints = ["--checkpoint", str(folder), "--checkpoint-every", EVERY]
    script = ["--", "--epochs", str(EPOCHS), "--save", str(save)]
    return [sys.executable, "-m", "weft", "run", str(SCRIPT), "-n", str(NUM_WORKERS), *checkpoints, *script]


def run(folder: Path, save: Path, killed_after_s: float | None = None) -> bool:
    """Run it, and kill its launcher after so many seconds; whether it has ended before."""
    process = subprocess.Popen(command(folder, save), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said, _ = process.communicate(timeout=RUN_S_MAX if killed_after_s is None else killed_after_s)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        if killed_after_s is None:
            raise SystemExit(f"the run did not end within {RUN_S_MAX:g} s") from None
        return False
    if process.returncode:
        raise SystemExit(f"the run failed with exit code {process.returncode}:\n{said.decode()}")
    return True


def main() -> int:
    """All kills; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = Random(asked.seed)
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        began_s = time.monotonic()
        run(home / "undisturbed", home / "undisturbed.safetensors")
        usual_s = time.monotonic() - began_s
        expected = (home / "undisturbed.safetensors").read_bytes()
        print(f"undisturbed: {usual_s:.1f} s, {len(expected)} bytes", flush=True)
        num_kills, num_ended, num_equal = 0, 0, 0
        while num_kills < asked.kills or num_ended == 0:
            folder, save = home / f"run-{num_ended}", home / f"run-{num_ended}.safetensors"
            has_ended = False
            while not has_ended:
                after_s = rng.uniform(0.0, usual_s) if num_kills < asked.kills else None
                has_ended = run(folder, save, after_s)
                if not has_ended:
                    num_kills += 1
                    newest = next(iter(steps_in(folder)), 0)
                    print(f"kill {num_kills:2d} after {after_s:.1f} s, newest checkpoint: step {newest}", flush=True)
            num_ended += 1
            num_equal += (is_equal := save.read_bytes() == expected)
            print(f"run {num_ended} has ended, {'bit-equal' if is_equal else 'NOT EQUAL'}", flush=True)
        print(f"{num_kills} kills, {num_ended} runs, {num_equal} of them bit-equal to the undisturbed one")
    return 0 if num_equal == num_ended else 1


if __name__ == "__main__":
    sys.exit(main())
