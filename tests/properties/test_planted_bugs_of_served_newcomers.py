"""Bugs that were made on purpose in how newcomers come to servers are caught: each by the invariant that it breaks."""

from collections.abc import Callable

import pytest

from weft.collectives.coded_messages import CodedMessagesPeer
from weft.core.actions import Compute
from weft.core.events import Data, MembersChanged
from weft.core.names import Buffer, NodeId
from weft.core.peer import Actions, Peer
from weft.fuzz.campaign import judge
from weft.fuzz.scenario import draw
from weft.sim.faults.rest import Rest
from weft.strategies.easgd import ElasticWorker
from weft.strategies.parts.served import ServedWorker
from weft.strategies.parts.shards import ShardServer, ShardWorker
from weft.strategies.sandblaster import SandblasterWorker
from weft.strategies.ssp import ServerBucket

pytestmark = pytest.mark.slow

SEEDS_MAX = 200

Plant = Callable[[pytest.MonkeyPatch], None]


def counts_newcomers_from_the_first_step(patch: pytest.MonkeyPatch) -> None:
    right = ServerBucket.enter
    patch.setattr(ServerBucket, "enter", lambda self, newcomer, pushed, version: right(self, newcomer, 0, version))


def begins_with_the_first_pass(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: SandblasterWorker, handed: Data) -> Actions:
        self.step = self.version
        return [Compute(self.step)]

    patch.setattr(SandblasterWorker, "take_over", wrong)


def lets_nobody_make_one_more_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rest, "_stands_still", lambda self: False)


def leaves_to_servers_what_they_do_not_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServedWorker, "given", lambda self: [])


def counts_the_samples_of_the_predecessor_too(patch: pytest.MonkeyPatch) -> None:
    right = ServerBucket.push

    def wrong(self: ServerBucket, worker: NodeId, step: int, samples: float) -> bool:
        return right(self, worker, step, samples + self.samples.get(step, {}).get(worker, 0.0))

    patch.setattr(ServerBucket, "push", wrong)


def forgets_which_version_it_was_given(patch: pytest.MonkeyPatch) -> None:
    patch.delattr(ShardWorker, "take_bucket")


def does_not_wait_for_newcomers(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: ServerBucket, newcomer: NodeId, pushed: int, version: int) -> None:
        self.pushed[newcomer], self.seen[newcomer] = pushed, version

    patch.setattr(ServerBucket, "enter", wrong)


def gives_the_replica_of_the_sponsor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServedWorker, "given", Peer.given)
    patch.setattr(ShardServer, "on_joined", Peer.on_joined)


def tells_newcomers_differences(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: CodedMessagesPeer, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        buckets = self.world.trainable
        self.known.update((kind, b, to) for kind in self._recipe.followed for b in buckets for to in newcomers)
        return super(CodedMessagesPeer, self).on_joined(event, newcomers)

    patch.setattr(CodedMessagesPeer, "on_joined", wrong)


def leaves_newcomers_where_their_scripts_began(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: ElasticWorker, into: Buffer, body: Buffer, clock: int) -> Actions:
        return []

    patch.setattr(ElasticWorker, "take_bucket", wrong)


BUGS: list[tuple[int, str, Plant]] = [
    (1, "ssp", counts_newcomers_from_the_first_step),
    (1, "sandblaster", begins_with_the_first_pass),
    (1, "sandblaster", lets_nobody_make_one_more_step),
    (1, "downpour", leaves_to_servers_what_they_do_not_have),
    (1, "ps", forgets_which_version_it_was_given),
    (2, "asgd", does_not_wait_for_newcomers),
    (2, "asgd", counts_the_samples_of_the_predecessor_too),
    (3, "ssp", does_not_wait_for_newcomers),
    (4, "downpour", gives_the_replica_of_the_sponsor),
    (4, "ssp", tells_newcomers_differences),
    (5, "easgd(mode=async)", leaves_newcomers_where_their_scripts_began),
]

FIRST_SEEDS: dict[Plant, int] = {
    lets_nobody_make_one_more_step: 117,
    counts_the_samples_of_the_predecessor_too: 123,
    gives_the_replica_of_the_sponsor: 28,
    tells_newcomers_differences: 24,
}
"""Bugs that few seeds catch, and the first that does; it is tried before all others."""


@pytest.mark.parametrize(("invariant", "strategy", "plant"), BUGS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_bug_of_joining_is_caught(
    invariant: int, strategy: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    first = FIRST_SEEDS.get(plant, 0)
    seeds = (seed for seed in (first, *range(SEEDS_MAX)) if draw(seed, (strategy,)).faults.has_joins)
    assert invariant in (violation.invariant for seed in seeds for violation in judge(seed, (strategy,)).violations)
