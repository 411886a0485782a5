"""Every codec on several hosts: a host codes once what its workers have summed, and replicas stay equal."""

from collections import Counter

import numpy as np
import pytest
from support.simulated.codings import CODINGS, FIT, NO_FRAMEWORK, SHAPE
from support.simulated.recipes import recipe

from weft.config.compression import Compression, codec, compressed, schemes, sums_hosts
from weft.config.registry import CODECS
from weft.core.names import NodeId
from weft.core.rules import SGD
from weft.cost.choice import Ground
from weft.cost.links import Link
from weft.runtime.connections import LINKS, SHM, TLS
from weft.sim.network import HostLinks
from weft.testing.worlds import BETWEEN, WITHIN, Ran, simulate_arrays

CROWDS = Ground((3, 2), LINKS[SHM], LINKS[TLS])
STEPS, HOSTS, APART = 16, (0, 0, 0, 1, 1), (0, 1)
CASES = [
    (coding, scheme)
    for coding in NO_FRAMEWORK
    for scheme in schemes(codec(CODINGS[coding]))
    if sums_hosts(codec(CODINGS[coding]), CROWDS)
]
every_case = pytest.mark.parametrize(("coding", "scheme"), CASES)


class CountedLinks(HostLinks):
    """Counts what crosses between hosts."""

    def __init__(self, hosts: tuple[int, ...]) -> None:
        super().__init__(hosts, [BETWEEN] * (max(hosts) + 1), WITHIN)
        self.crossed: Counter[tuple[int, int]] = Counter()

    def send(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> tuple[int, bool]:
        if self._hosts[source] != self._hosts[target]:
            self.crossed[self._hosts[source], self._hosts[target]] += num_bytes
        return super().send(source, target, num_bytes, now_ns)


def train(coding: str, scheme: str, hosts: tuple[int, ...], num_steps: int = STEPS) -> tuple[Ran, int]:
    """The run, and the bytes that crossed between hosts."""
    links, num_workers = CountedLinks(hosts), len(hosts)
    strategy = compressed(
        recipe("allreduce"), Compression(codec(CODINGS[coding]), scheme, sums_hosts=True), "hierarchical"
    )
    ran = simulate_arrays(
        strategy,
        num_workers,
        FIT.gradient,
        num_steps=num_steps,
        samples=[4.0 * (worker + 1) for worker in range(num_workers)],
        starts=[{"w": FIT.start}] * num_workers,
        rule=SGD(0.1),
        epoch_steps=8,
        hosts=hosts,
        network=links,
        loss=lambda worker, step, w: FIT.loss(w),
    )
    return ran, sum(links.crossed.values())


@every_case
def test_it_learns_and_all_workers_of_all_hosts_have_the_same_parameters(coding: str, scheme: str) -> None:
    ran, _ = train(coding, scheme, HOSTS)
    assert all(np.array_equal(node[0], ran.params[0][0]) for node in ran.params)
    assert FIT.loss(ran.params[0][0].reshape(SHAPE)) < 0.8 * FIT.loss(FIT.start)


@pytest.mark.parametrize(("coding", "scheme"), [case for case in CASES if not CODECS[case[0]].varies])
def test_hosts_of_many_workers_send_each_other_no_more_than_hosts_of_one(coding: str, scheme: str) -> None:
    _, crowded = train(coding, scheme, HOSTS, 3)
    _, alone = train(coding, scheme, APART, 3)
    assert crowded == alone > 0


def test_each_workers_own_contribution_is_coded_where_that_is_what_the_codec_is_for() -> None:
    for text in ("signsgd", "factors", "dgc(clip=1.0)"):
        assert not sums_hosts(codec(text), CROWDS)
    assert sums_hosts(codec("dgc"), CROWDS)
    assert not sums_hosts(codec("onebit"), CROWDS, survives=True)
    assert not sums_hosts(codec("onebit"), Ground((1, 1), Link(0, 1), Link(0, 1))), "none shares a link"
    assert not sums_hosts(codec("onebit"), Ground((4,), Link(0, 1), Link(0, 1)))
