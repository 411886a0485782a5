"""Reduce on several hosts: each host sums in its shared memory, leaders add the hosts' sums, and all take the result.

Two states lie between those of reduce/shared.py; fences are as there:

| state  | entered when                      | then is written, in this order                        |
|--------|-----------------------------------|-------------------------------------------------------|
| given  | the peer emits Reduce             | contribution, WEIGHT, CLOCK, KIND; fence; READY       |
| added  | all READY >= number               | own stretch of the host's sum; fence; ADDED           |
| spread | all ADDED >= number (leader only) | result of all hosts, in place; TOTAL; fence; SPREAD   |
| summed | the leader's SPREAD >= number     | nothing; fence; DONE                                  |
| ended  | all DONE >= number                | nothing                                               |

While the leader exchanges sums, it writes the whole bucket of the result; the others do not touch it before SPREAD.
So a bucket crosses between hosts once each way, however many workers a host has. A worker that is alone on its host
sums nothing: its contribution is exchanged from where it lies. As on one host, a strategy that keeps replicas equal has
one copy of the parameters per host, of which each worker updates its stretch.

What the leader has sent last of a bucket may still wait for the network, in place, when its next reduction begins: what
then waits is copied, before the leader gives to it, because no worker writes to the result before all have given.
"""

from collections.abc import Sequence

from weft.core.actions import MAX, MEAN, SUM, Reduce
from weft.core.names import NodeId
from weft.core.schedule import first_of_each
from weft.runtime.mailbox import Mailbox
from weft.runtime.measure.tracer import Tracer
from weft.runtime.reduce.between_hosts import BetweenHosts, Planner
from weft.runtime.reduce.exchange import About, HostSum
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
        planner: Planner,
    ) -> None:
        """`hosts` has the number of each worker's host; `planner` plans a leader's exchanges."""
        super().__init__(arena, bells, store, gradient_is_given=gradient_is_given, tracer=tracer)
        self._group = tuple(range(len(hosts)))
        self._leaders: list[NodeId] = first_of_each(hosts)
        self._spread: set[SharedReduction] = set()
        """Reductions for which this worker has taken the sum of all hosts and written DONE."""
        self._between: BetweenHosts | None = None
        leader = arena.ranks[LEADER]
        self._mailbox = mailbox
        if arena.local_rank == LEADER:
            self._between = BetweenHosts(self._leaders, self._leaders.index(leader), arena.buckets, planner, mailbox)
            mailbox.hear_sums(self._between)
            self.needs_background = True  # frames may still wait in the outbox when the leader's script goes on
        self._begun: set[SharedReduction] = set()
        self._brought: dict[SharedReduction, HostSum] = {}
        """On the leader: what this host brings to an exchange that has not begun."""

    def join(self, action: Reduce) -> None:
        if self._between is not None:
            lane = self._lane(action.buffer)
            self._mailbox.take_back((int(lane.is_staged), action.buffer.bucket))
        super().join(action)

    def _add_up(self, reduction: SharedReduction) -> None:
        """Sum this worker's stretch of the contributions of this host, times their weights, unless these are equal."""
        lane, weights, op = reduction.lane, reduction.weights, reduction.action.op
        different = {weight for weight in weights if weight}
        factor = different.pop() if op == MEAN and len(different) == 1 else float(bool(different))
        is_alone = len(weights) == 1 and (op != SUM or factor == weights[0])
        if factor and not is_alone:
            shares = [float(bool(weight)) for weight in weights] if factor != 1.0 else weights
            reduce_into(lane.total, lane.stretches, shares, MAX if op == MAX else SUM)
            self.bytes_shared += lane.total.nbytes * len(weights)
        if self._between is not None:
            total = self._arena.array(f"reduced.{int(lane.is_staged)}", reduction.action.buffer.bucket)
            values = lane.contribution if is_alone else total
            self._brought[reduction] = HostSum(values, total, sum(weights), factor)

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
            words = self._words
            version = words[self._arena.worker_line(LEADER) + COMMITTED]
            about = About(words[lane.mine + CLOCK], words[lane.mine + KIND], version)
            between.begin(key, lane.number, about, action.op, self._brought.pop(reduction))
        elif self._words[lane.mine + SPREAD] >= lane.number:
            return False
        weight = between.ended(key)
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
