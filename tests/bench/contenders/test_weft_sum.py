"""Weft's all-reduce as a contender: its strategy sums, and nothing else."""

from weft.bench.contenders.weft_sum import SumGradients
from weft.core.actions import SUM, Compute, Reduce
from weft.core.events import GradientReady, StepFinished
from weft.core.names import Buffer
from weft.testing.peers import peer_of, tell


def test_every_gradient_is_one_sum_over_all_workers() -> None:
    peer = peer_of(SumGradients())
    for clock in (1, 2):
        assert tell(peer, GradientReady(0, 0, 1.0)) == [
            Reduce((0, 1, 2), "sum", clock, Buffer("gradient", 0), SUM, 1.0)
        ]
    assert tell(peer, StepFinished(0, 1.0, None)) == [Compute(1)]
