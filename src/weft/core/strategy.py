"""A strategy: the immutable, picklable, comparable recipe from which every node's peer is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar, NamedTuple

from weft.core.coding import Coding
from weft.core.graph import Graph
from weft.core.invariants import Invariant
from weft.core.names import WELCOME, Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Peer
from weft.core.rules import Rule
from weft.core.world import World


class Entry(NamedTuple):
    """Under what a published method stands in the registry, in listings and in the README's table."""

    name: str
    """What strategy strings call it: 'ssp'."""
    method: str
    """The method's own name with its source: 'DiLoCo (Douillard et al. 2023)'."""
    summary: str
    """What it does, in a sentence without a full stop."""


@dataclass(frozen=True)
class Strategy:
    """Base of all recipes: parameters are its fields, checked in `__post_init__`."""

    entry: ClassVar[Entry]
    """Of the methods in strategies/; a script's own strategy needs none."""

    @property
    def result(self) -> Result:
        """Which model is the outcome."""
        return Result.REPLICA

    @property
    def keeps_replicas_equal(self) -> bool:
        """Every gradient is reduced over all workers before backward returns, and applied alike by all.

        Then workers of one host can share one copy of the parameters.
        """
        return False

    @property
    def allows_closures(self) -> bool:
        """Optimizers may compute the gradient again and again in one step, as LBFGS does: between the calls of their
        closure parameters move only by the optimizer, and workers either reduce every call alike or share nothing."""
        return False

    @property
    def keeps_step(self) -> bool:
        """Workers wait for each other's steps; otherwise one may end, or fall behind, without holding up another."""
        return True

    @property
    def averages_steps(self) -> bool:
        """What is applied is always the mean of several workers' gradients of one and the same step."""
        return self.keeps_replicas_equal

    @property
    def keeps_writes(self) -> bool:
        """What a script writes to its parameters between steps stays: they are added to, never replaced from elsewhere
        by values that do not know of it."""
        return True

    @property
    def allows_optimizers(self) -> bool:
        """Several optimizers may take turns: workers whose gradients are added up are always at the same step."""
        return True

    @property
    def deals_portions(self) -> bool:
        """The strategy says which batch of its share a worker takes next; otherwise shares are dealt beforehand."""
        return False

    @property
    def reduces(self) -> bool:
        """It emits Reduce: where nobody else does reductions, it needs a collective that is lowered to messages."""
        return False

    @property
    def speaks_reductions(self) -> bool:
        """Reductions are spoken in messages: the strategy runs over a lowered collective."""
        return False

    @property
    def welcomes(self) -> bool:
        """Newcomers may come into a run that is under way: its peers know what those take over, and from whom."""
        return False

    @property
    def rest_period(self) -> int:
        """Newcomers come in before a step that is a multiple of this, where it keeps step."""
        return 1

    @property
    def first_exchange(self) -> int:
        """After how many of its steps a worker first exchanges anything; in a shorter run all are alone."""
        return 1

    @property
    def scored(self) -> bool:
        """Reported callables are run on each worker's own replica, too: the peers compare the scores."""
        return False

    @property
    def score(self) -> str:
        """The name of the reported number by which the best worker is found."""
        return "loss"

    @property
    def tunes(self) -> bool:
        """It changes the hyper-parameters that the script declares: `world.tuned` is their bucket."""
        return False

    def roles(self, num_workers: int) -> Roles:
        """How many workers and servers take part; raises ConfigError when the recipe is not for that many."""
        return Roles(num_workers)

    def graph(self, num_workers: int) -> Graph | None:
        """Who talks to whom, for strategies over a topology; raises ConfigError when it does not fit."""
        return None

    @property
    def shares_replica(self) -> bool:
        """All workers read and write one replica, in memory that they share."""
        return False

    def check(self, num_workers: int, num_hosts: int = 1) -> None:
        """Raise ConfigError unless the recipe is for that many workers, on so many hosts that share no memory."""
        self.roles(num_workers)
        self.graph(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        """The memory it needs besides `params` and `gradient`, declared up front."""
        return ()

    def kinds(self) -> Mapping[str, Carries]:
        """What each kind of message carries; one that is not declared cannot be sent."""
        return {}

    def codecs(self) -> Mapping[str, Coding]:
        """The codec of each kind that it names in Encode; configuration chooses them."""
        return {}

    def rules(self, world: World) -> Mapping[str, Rule]:
        """The update rules it names in Apply besides the user's own optimizer, in this world."""
        return {}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        """What it promises in this world besides what all do; `weft fuzz` audits it by the checks that are named."""
        return ()

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        """Some of its parameters, drawn so that all that it can do comes up in a few workers' few steps."""
        return {}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        """The protocol object of one node."""
        raise NotImplementedError


def all_kinds(strategy: Strategy) -> Mapping[str, Carries]:
    """The kinds of messages of a strategy, and those that every strategy has."""
    return {**strategy.kinds(), WELCOME: Carries.EXACT}
