"""Makes the runs of a comparison: real ones on this machine, or simulated ones on a cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.config.ways import Way
from weft.core.errors import ConfigError
from weft.engines.local.forked_workers import ForkServer
from weft.engines.local.launcher import fork_server_of
from weft.engines.real.job import RealJob
from weft.engines.simulated.job import SimulatedJob


@dataclass(frozen=True)
class RealTrials:
    """Contenders on real workers; one job has all that they have in common."""

    common: RealJob

    def job(self, way: Way, seed: int) -> RealJob:
        """One contender's run; raises ConfigError if it cannot be."""
        same = replace(self.common, seed=seed)
        if way.baseline is not None:
            return same.under(way.baseline)
        return replace(same, strategy=way.strategy, compress=way.compress, share=way.share)

    def fork_server(self, ways: Sequence[Way], tell: Callable[[str], None]) -> ForkServer:
        """A fork server for the workers of all contenders, with the codecs of all of them compiled."""
        return fork_server_of(self.common, tell, [way.compress for way in ways])


@dataclass(frozen=True)
class SimulatedTrials:
    """Contenders in virtual time."""

    common: SimulatedJob

    def job(self, way: Way, seed: int) -> SimulatedJob:
        """One contender's run; raises ConfigError if it cannot be."""
        return replace(self.common, seed=seed, strategy=way.strategy, compress=way.compress, share=way.share)


Trials = RealTrials | SimulatedTrials


def refusal(trials: Trials, way: Way) -> ConfigError | None:
    """The error if a way cannot run here, or None; checked for all ways before the first run starts."""
    try:
        trials.job(way, 0)
    except ConfigError as error:
        return error
    return None
