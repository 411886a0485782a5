"""Every registered strategy keeps its promises when things go wrong: a new one is hunted once it has a name."""

import pytest

from weft.config.registry import STRATEGIES
from weft.fuzz.campaign import judge

pytestmark = pytest.mark.slow

SEEDS = range(4)


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_invariant_is_broken(name: str) -> None:
    verdicts = [judge(seed, (name,)) for seed in SEEDS]
    assert [(verdict.seed, verdict.violations) for verdict in verdicts if verdict.violations] == []
    assert all(verdict.num_events > 50 for verdict in verdicts)
