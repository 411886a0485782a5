"""What a comparison was asked for on the command line, beside its contenders: the same for all of them."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.cli.options.run_options import share_and_factor
from weft.config.cluster import load_cluster
from weft.config.network import read_network
from weft.config.options import set_options
from weft.config.registry import ALL
from weft.config.ways import with_parameters_of
from weft.core.errors import ConfigError
from weft.core.pace import pace_of
from weft.engines.calibrate.machine import machine
from weft.engines.compare.trials import RealTrials, SimulatedTrials, Trials
from weft.engines.job_checks import check_slow
from weft.engines.real.job import RealJob
from weft.engines.simulated.job import Job
from weft.observe.records.comparison import Setup, Target
from weft.runtime.connections import SHM, TCP


@dataclass(frozen=True)
class CompareOptions:
    """Options as they were said; what was not is empty or None."""

    script: Path
    arguments: tuple[str, ...]
    num_workers: int
    slow: dict[int, float]
    hiccups: str | None
    transport: str | None
    net: tuple[str, ...]
    collective: str | None
    global_batch: int | None
    scale_lr: bool
    warmup: int
    steps: int | None
    set: tuple[str, ...]
    cluster: str | None
    """What is simulated; None: runs are real."""

    def trials(self) -> Trials:
        """Where contenders run; all that they have in common is checked."""
        pace = pace_of(self.num_workers, self.scale_lr, self.warmup)
        if self.cluster is not None:
            self._check_simulated()
            place = load_cluster(self.cluster).with_stragglers(self.slow)
            about = self.script, self.arguments, place, self.num_workers
            return SimulatedTrials(
                Job(*about, collective=self.collective, steps_max=self.steps, pace=pace, traces=True, saves=False)
            )
        return RealTrials(
            RealJob(
                self.script,
                self.arguments,
                self.num_workers,
                collective=self.collective,
                transport=self.transport or (TCP if self.net else SHM),
                steps_max=self.steps,
                slow=self.slow,
                hiccups=share_and_factor(self.hiccups),
                global_batch=self.global_batch,
                options=set_options(self.set)[0],
                network=read_network(*self.net) if self.net else None,
                pace=pace,
                traces=True,
                saves=False,
            )
        )

    def _check_simulated(self) -> None:
        for name in ("hiccups", "transport", "net", "global_batch", "set"):
            if getattr(self, name):
                raise ConfigError(
                    f"--{name.replace('_', '-')} is for real runs, but --simulate was said.\n"
                    "  Leave out one of them; a cluster file says how simulated machines and links are."
                )
        check_slow(self.slow, self.num_workers)

    def texts(self, strategies: Sequence[str]) -> list[str]:
        """Strategies as they were said, with the parameters that --set gives to all of them."""
        _, parameters = set_options(self.set)
        if not parameters:
            return list(strategies)
        if ALL in strategies:
            raise ConfigError(
                "--set strategy... is for strategies that are named, but 'all' was said.\n  Name those that have it."
            )
        return [with_parameters_of(text, parameters) for text in strategies]

    def setup(self, num_seeds: int, target: Target | None) -> Setup:
        """What all contenders have in common, for the report."""
        if num_seeds < 1:
            raise ConfigError(f"--seeds is {num_seeds}, but each contender runs at least once.\n  Use --seeds 1.")
        names = ("collective", "hiccups", "transport", "global_batch", "scale_lr", "warmup", "steps", "set")
        said = {name.replace("_", "-"): getattr(self, name) for name in names}
        return Setup(
            script=str(self.script),
            arguments=list(self.arguments),
            workers=self.num_workers,
            seeds=list(range(num_seeds)),
            target=target,
            slow={str(worker): factor for worker, factor in self.slow.items()},
            network=str(read_network(*self.net)) if self.net else None,
            cluster=self.cluster,
            options={n: ", ".join(v) if isinstance(v, tuple) else str(v) for n, v in said.items() if v},
            command=shlex.join(["weft", *sys.argv[1:]]),
            machine=machine(),
        )
