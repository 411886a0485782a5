"""Seeds that once broke an invariant, or were blamed for it, each with what went wrong."""

from dataclasses import replace

import pytest

from weft.fuzz.auditor import audit
from weft.fuzz.campaign import judge
from weft.fuzz.run import run
from weft.fuzz.scenario import draw

SEEDS = {
    "a worker was fenced between its gradient, which had been reduced, and its step": ("allreduce", 858),
    "the same, in a run without a collective": ("allreduce", 983),
    "a worker that was out wrote to the memory that all share": ("hogwild", 941),
    "a worker that had ended was the only one with the result of a reduction": ("allreduce", 59),
    "the last to end averaged with those who had left": ("local_sgd", 48),
    "a push that was returned with the change of members was waited for": ("ssp", 0),
    "parameters of a round were awaited from one who had finished": ("gossip", 2),
    "a worker whose script had ended was fenced before its last round was heard of": ("gossip", 3200),
    "a moved server was sent an older copy before the newest": ("quorum", 5507),
    "a fetch was answered by a server that had moved": ("downpour", 4),
}

CODED_SEEDS = {
    "late pushes of other clocks were summed without being decoded": ("quorum", 131, "randomk(0.3)"),
    "a push that came back in its own step, and that nobody heard, was forgotten": ("neighbours", 154, "topk(0.002)"),
}


@pytest.mark.parametrize(("strategy", "seed"), SEEDS.values(), ids=SEEDS)
def test_what_went_wrong_once_does_not_again(strategy: str, seed: int) -> None:
    assert judge(seed, (strategy,)).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "seed", "compress"), CODED_SEEDS.values(), ids=CODED_SEEDS)
def test_what_went_wrong_once_with_a_codec_does_not_again(strategy: str, seed: int, compress: str) -> None:
    assert audit(run(replace(draw(seed, (strategy,)), compress=compress))) == []
