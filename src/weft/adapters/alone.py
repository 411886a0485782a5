"""The seat of a script that was started by plain `python`: one worker, no communication, a plain loop."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.core.pace import LearningRatePace
from weft.core.script_state import JOIN, STARTED, ScriptState
from weft.core.seat import Replica, Reported, saved_alone, step_alone
from weft.core.strategy import Strategy
from weft.model_files import not_saved


class Alone:
    """Every call returns at once; a step is the user's optimizer and nothing else."""

    rank = 0
    num_workers = 1
    survivor = None
    seed = 0
    global_batch: int | None = None
    pace = LearningRatePace()
    saves = True
    is_probe = False
    is_simulated = False
    is_plain = True
    block_steps: int | None = None
    steals = False

    def __init__(self, steps_max: int | None = None) -> None:
        self.steps_max = steps_max
        self.checkpoints: object | None = None
        """A checkpoints.taking.Checkpoints, if this script has a folder for them."""
        self.leaves = False
        """It was told by a signal to leave after this step."""
        self.script = ScriptState(STARTED)
        self.face: object | None = None
        self._replica: Replica

    def join(self, replica: Replica, strategy: Strategy | str | None, compress: str | None = None) -> None:
        self._replica = replica
        self.script.call(JOIN)

    def join_more(self) -> None:
        pass

    def settle(self) -> None:
        self.script.begin()

    def gradient_filled(self, bucket: int, samples: float) -> None:
        pass

    def portions(self, num_portions: int, num_samples: int) -> Iterator[int] | None:
        return None

    def tell(self, text: str) -> None:
        print(f"weft: {text}", file=sys.stderr, flush=True)

    def compare_first(self, digest: str) -> None:
        pass

    def compare_stream(self, digest: str) -> None:
        pass

    def note(self, activity: str) -> None:
        pass

    def fractions(self, share: int, num_samples: int, block: int) -> Sequence[float]:
        return (1.0,)

    def check_closures(self) -> None:
        pass

    def backward_finished(self, samples: float) -> None:
        pass

    def step_finished(self, samples: float, loss: float | None, *, is_repeat: bool = False) -> None:
        self.settle()
        if self._replica.buckets:
            step_alone(self._replica)

    def report(self, epoch: int, numbers: Reported) -> None:
        self.settle()
        values = {name: value() if callable(value) else value for name, value in numbers.items()}
        told = "  ".join(f"{name} {float(value):.4f}" for name, value in values.items())
        print(f"epoch {epoch + 1:3d}  {told}", flush=True)

    def save(self, path: str, model: str, *, of: int | None = None, allow_nan: bool = False) -> None:
        self.settle()
        try:
            self._replica.save(path, saved_alone(self._replica, model), of=of, allow_nan=allow_nan)
        except OSError as error:  # a full disk must not end the training
            print(f"weft: {not_saved(path, error)}", file=sys.stderr, flush=True)

    def once(self, key: object, load: Callable[[], Any]) -> Any:
        return load()

    def plan(self, num_epochs: int | None, num_samples: int, batch_size: int, drop_last: bool) -> None:
        pass
