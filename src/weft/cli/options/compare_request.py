"""What a comparison was asked for on the command line, beside its contenders: the same for all of them."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.config.cluster import load_cluster
from weft.config.network import read_network
from weft.config.options import COMPARE, LEAVES, SIMULATE, check_takes, keys, set_options
from weft.config.registry import ALL
from weft.config.ways import with_parameters_of
from weft.core.errors import ConfigError
from weft.core.pace import pace_of
from weft.engines.calibrate.machine import machine
from weft.engines.compare.trials import RealTrials, SimulatedTrials, Trials
from weft.engines.job_checks import check_slow
from weft.engines.real.job import RealJob
from weft.engines.simulated.job import SimulatedJob
from weft.observe.records.comparison import Setup, Target
from weft.runtime.connections import SHM, TCP


@dataclass(frozen=True)
class CompareOptions:
    """Options as they were said; what was not is empty or None."""

    script: Path
    arguments: tuple[str, ...]
    num_workers: int
    slow: dict[int, float]
    transport: str | None
    net: tuple[str, ...]
    scale_lr: bool
    warmup: int
    steps: int | None
    set: tuple[str, ...]
    cluster: str | None
    """What is simulated; None: runs are real."""

    def trials(self) -> Trials:
        """Where contenders run; all that they have in common is checked."""
        pace = pace_of(self.num_workers, self.scale_lr, self.warmup)
        check_takes(COMPARE, self.set)
        options, _ = set_options(self.set)
        if self.cluster is not None:
            self._check_simulated()
            place = load_cluster(self.cluster).with_stragglers(self.slow)
            return SimulatedTrials(
                SimulatedJob(
                    script=self.script,
                    arguments=self.arguments,
                    cluster=place,
                    num_workers=self.num_workers,
                    collective=options.reduce.collective,
                    steps_max=self.steps,
                    pace=pace,
                    traces=True,
                    saves=False,
                )
            )
        return RealTrials(
            RealJob(
                script=self.script,
                arguments=self.arguments,
                num_workers=self.num_workers,
                collective=options.reduce.collective,
                transport=self.transport or (TCP if self.net else SHM),
                steps_max=self.steps,
                slow=self.slow,
                hiccups=options.worker.hiccups,
                global_batch=options.data.global_batch,
                options=options,
                network=read_network(*self.net) if self.net else None,
                pace=pace,
                traces=True,
                saves=False,
            )
        )

    def _check_simulated(self) -> None:
        said = [f"--{name}" for name in ("transport", "net") if getattr(self, name)]
        said += [f"--set {key}" for key in keys(self.set) if SIMULATE not in LEAVES[key].takers]
        for option in said:
            raise ConfigError(
                f"{option} is for real runs, but --simulate was said.\n"
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
        names = ("transport", "scale_lr", "warmup", "steps", "set")
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
