"""Reduce on several hosts: each host sums in its shared memory, leaders add the hosts' sums, and all take the result.

Two states lie between those of reduce/shared.py; fences are as there:

| state  | entered when                      | then is written, in this order                        |
|--------|-----------------------------------|-------------------------------------------------------|
| given  | the peer emits Reduce             | contribution, WEIGHT, CLOCK, KIND; fence; READY       |
| added  | all READY >= number               | own stretch of the host's sum; fence; ADDED           |
| spread | all ADDED >= number (leader only) | sum of all hosts, in place; TOTAL; fence; SPREAD      |
| summed | the leader's SPREAD >= number     | own stretch, for a mean divided by TOTAL; fence; DONE |
| ended  | all DONE >= number                | nothing                                               |

While the leader exchanges sums, it writes the whole bucket of the result; the others do not touch it before SPREAD.
So a bucket crosses between hosts once each way, however many workers a host has. As on one host, a strategy that keeps
replicas equal has one copy of the parameters per host, of which each worker updates its stretch.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from weft.core.actions import MAX, MEAN, SUM
from weft.core.names import NodeId
from weft.runtime.mailbox import Mailbox
from weft.runtime.measure.tracer import Tracer
from weft.runtime.reduce.between_hosts import About, BetweenHosts, Plan
from weft.runtime.reduce.shared import CLOCK, DONE, KIND, SharedReduce, SharedReduction
from weft.runtime.shared_params import COMMITTED
from weft.store.arena import Arena
from weft.store.numpy import NumpyStore
from weft.store.reduction import reduce_into
from weft.transports.bells import Bells, fence

ADDED, SPREAD, TOTAL = 5, 6, 7
"""Further words of a worker's line for a lane and bucket; only the leader writes SPREAD and TOTAL (a double)."""
LEADER = 0
"""The local rank of a host's leader."""


class HostsReduce(SharedReduce):
    """This worker's part in the reductions of all workers of several hosts."""

    def __init__(
        self,
        arena: Arena,
        bells: Bells,
        store: NumpyStore,
        *,
        gradient_is_given: bool,
        tracer: Tracer | None = None,
        hosts: Sequence[int],
        mailbox: Mailbox,
        plan: Plan,
    ) -> None:
        """`hosts` has the number of each worker's host; `plan` gives the hops of a leader's exchange."""
        super().__init__(arena, bells, store, gradient_is_given=gradient_is_given, tracer=tracer)
        self._group = tuple(range(len(hosts)))
        self._leaders: list[NodeId] = [list(hosts).index(host) for host in dict.fromkeys(hosts)]
        self._spread: set[SharedReduction] = set()
        """Reductions for which this worker has taken the sum of all hosts and written DONE."""
        self._between: BetweenHosts | None = None
        leader = arena.ranks[LEADER]
        if arena.local_rank == LEADER:
            sizes = [bucket.num_bytes for bucket in arena.buckets]
            self._between = BetweenHosts(self._leaders, self._leaders.index(leader), sizes, plan, mailbox.send_sum)
            mailbox.on_sum = self._between.hear
            self.needs_background = True  # frames may still wait in the outbox when the leader's script goes on
        self._begun: set[SharedReduction] = set()

    def _add_up(self, reduction: SharedReduction) -> None:
        """Sum this worker's stretch of the contributions of this host, times their weights."""
        lane, weights, op = reduction.lane, reduction.weights, reduction.action.op
        if any(weights):
            reduce_into(lane.total, lane.stretches, weights, MAX if op == MAX else SUM)
            self.bytes_shared += lane.total.nbytes * len(weights)
        else:
            lane.total.fill(-inf if op == MAX else 0.0)

    def _say_summed(self, reduction: SharedReduction) -> None:
        self._say(reduction, ADDED)

    def _pass_on(self, reduction: SharedReduction) -> bool:
        """Advance the exchange between hosts (leader), and take its result when ready; True if anything was done."""
        if reduction in self._spread:
            return False
        lane, moved = reduction.lane, False
        if self._between is not None and self._all_have(reduction, ADDED):
            moved = self._advance(self._between, reduction)
        leader = lane.lines[LEADER]
        if self._words[leader + SPREAD] < lane.number:
            return moved
        fence()
        reduction.weight = self._arena.doubles[leader + TOTAL]
        if reduction.weight and reduction.action.op == MEAN:
            np.divide(lane.total, lane.total.dtype.type(reduction.weight), out=lane.total)
        self._spread.add(reduction)
        self._say(reduction, DONE)
        return True

    def _advance(self, between: BetweenHosts, reduction: SharedReduction) -> bool:
        """The leader's part: begin or continue the exchange with other leaders; returns whether it has just ended."""
        lane, action = reduction.lane, reduction.action
        key = int(lane.is_staged), action.buffer.bucket
        if reduction not in self._begun:
            self._begun.add(reduction)
            fence()
            words, total = self._words, self._arena.array(f"reduced.{key[0]}", key[1])
            version = words[self._arena.worker_line(LEADER) + COMMITTED]
            about = About(words[lane.mine + CLOCK], words[lane.mine + KIND], version)
            between.begin(key, lane.number, about, action.op, total, sum(reduction.weights))
        elif self._words[lane.mine + SPREAD] >= lane.number:
            return False
        weight = between.advance(key)
        if weight is None:
            return False
        self._arena.doubles[lane.mine + TOTAL] = weight
        self._say(reduction, SPREAD)
        return True

    def may_rest(self) -> bool:
        """False while this leader's exchange is under way: the other leaders wait for its parts."""
        return self._between is None or self._between.is_idle

    def _forget(self, reduction: SharedReduction) -> None:
        self._spread.discard(reduction)
        self._begun.discard(reduction)

    def waits_for(self) -> list[int]:
        late = super().waits_for()
        if late or not self._open:
            return late
        if self._between is not None:
            return self._between.waits_for()
        return [leader for leader in self._leaders if leader != self._arena.ranks[LEADER]]
