"""Makes the jobs of a comparison's runs: real ones on this machine, or simulated ones on a cluster."""

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
    """Makes the jobs of contenders on real workers; `common` is a job with all that they share."""

    common: RealJob

    def job(self, way: Way, seed: int) -> RealJob:
        """The job of one contender's run; raises ConfigError if it is invalid."""
        same = replace(self.common, seed=seed)
        if way.baseline is not None:
            return same.under(way.baseline)
        return replace(same, strategy=way.strategy, compress=way.compress, share=way.share)

    def fork_server(self, ways: Sequence[Way], tell: Callable[[str], None]) -> ForkServer:
        """A fork server for the workers of all contenders, with the codecs of all of them compiled."""
        return fork_server_of(self.common, tell, [way.compress for way in ways])


@dataclass(frozen=True)
class SimulatedTrials:
    """Makes the jobs of contenders in virtual time; `common` is a job with all that they share."""

    common: SimulatedJob

    def job(self, way: Way, seed: int) -> SimulatedJob:
        """The job of one contender's run; raises ConfigError if it is invalid."""
        return replace(self.common, seed=seed, strategy=way.strategy, compress=way.compress, share=way.share)


Trials = RealTrials | SimulatedTrials


def refusal(trials: Trials, way: Way) -> ConfigError | None:
    """The error if a way cannot run here, or None; checked for all ways before the first run starts."""
    try:
        trials.job(way, 0)
    except ConfigError as error:
        return error
    return None
