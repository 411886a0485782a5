"""How fast a run learns: the script's learning rate, times a factor that is the same for every strategy."""

from dataclasses import dataclass

from weft.core.errors import ConfigError


@dataclass(frozen=True)
class LearningRatePace:
    """The factor is `scale`, after a linear warm-up that begins with what one worker of all would have of it."""

    num_workers: int = 1
    scale: float = 1.0
    warmup: int = 0
    """In how many steps it is reached."""

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise ConfigError(f"--warmup is {self.warmup}, but must be 0 or more steps.\n  Use e.g. --warmup 100.")

    def factor(self, step: int) -> float:
        """By what the learning rate of a step, counted from 0, is multiplied."""
        if step >= self.warmup:
            return self.scale
        first = 1 / self.num_workers
        return self.scale * (first + (1 - first) * step / self.warmup)


def pace_of(num_workers: int, is_scaled: bool, warmup: int) -> LearningRatePace:
    """With linear scaling, as many workers learn as many times as fast: their global batch is so much larger."""
    return LearningRatePace(num_workers, float(num_workers) if is_scaled else 1.0, warmup)
