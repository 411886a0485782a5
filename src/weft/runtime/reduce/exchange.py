"""The exchange of one piece of a bucket's sum between hosts: what is sent, added and taken over, hop by hop.

A sum of equal weights is made without them: they are left out, as its `factor`, until it is complete. So a host with
one worker sends that worker's contribution from where it lies. The part of the sum that a host completes is divided by
the total weight there, before it is spread: the others receive the mean in its place.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.actions import MAX, MEAN
from weft.core.errors import ConfigError, IllegalAction
from weft.core.names import NodeId, Part

Array = NDArray[Any]

UNKNOWN = -1.0
"""Stands for the weight of a host that is not known yet."""

_ABOUT = Struct("<qIqd")


class About(NamedTuple):
    """Facts about a reduction that must be equal on all hosts."""

    clock: int
    name: int
    """Checksum of kind, op and slot."""
    version: int
    """The leader's COMMITTED word: the number of the last reduction applied, where workers share their parameters."""


class HostSum(NamedTuple):
    """What a host brings to an exchange."""

    values: Array
    """Its sum of the bucket: in `total` already, or its only worker's contribution."""
    total: Array
    """Memory for the sum of all hosts."""
    weight: float
    factor: float
    """What `values` are still to be multiplied by; 0 if the host's workers contribute nothing."""


class Hop(NamedTuple):
    """One message of a leader: it sends `part` of its sum to host `other`, or receives that part, to add it to its own
    or to replace its own."""

    other: int
    part: Part | None
    is_sent: bool
    replaces: bool = False
    is_lent: bool = False
    """What is sent does not change before `other` has it, but by what `other` sends back, or in a later reduction."""


class CamePart(NamedTuple):
    """A part of another host's sum, as it was received."""

    source: NodeId
    number: int
    part: Part | None
    about: bytes
    values: Array
    is_in_place: bool = False
    """It was received to where it belongs in the sum."""

    @property
    def name(self) -> tuple[NodeId, int, Part | None]:
        return self.source, self.number, self.part


def about_bytes(num_hosts: int) -> int:
    """The size of what is told with each part."""
    return _ABOUT.size + 8 * num_hosts


class Plan(NamedTuple):
    """The hops of a leader for one piece of a bucket. The part `completed` has all contributions here when `num_before`
    hops are done, and is divided then; None: other hosts complete all parts."""

    hops: tuple[Hop, ...]
    num_before: int | None
    completed: Part | None


def plan_of(hops: Sequence[Hop], piece: Part | None) -> Plan:
    """The plan of these hops for a piece."""
    added = [at for at, hop in enumerate(hops) if not hop.is_sent and not hop.replaces]
    if added:
        return Plan(tuple(hops), added[-1] + 1, hops[added[-1]].part)
    return Plan(tuple(hops), None if hops else 0, piece)


class Exchange:
    """The exchange of one piece; `at` is the index of the next hop."""

    def __init__(self, number: int, about: About, op: str, mine: HostSum, plan: Plan, weights: list[float]) -> None:
        """`weights` are those of all hosts, as far as they are known."""
        self.number = number
        self.weights = weights
        self.at = 0
        self._about = about
        self._op = op
        self._plan = plan
        self._mine = mine
        self._in_total: list[tuple[Part | None, float]] = []
        """The parts of the total that were written, the smallest last, and what they are to be multiplied by."""
        self._complete()

    @property
    def next(self) -> Hop | None:
        """The next hop; None at the end."""
        return self._plan.hops[self.at] if self.at < len(self._plan.hops) else None

    def part(self, part: Part | None) -> tuple[bytes, Array]:
        """A part of this host's sum as it is now, and what is told with it: facts, factor, and the known weights."""
        values, factor = self._part(part)
        return _ABOUT.pack(*self._about, factor) + np.array(self.weights).tobytes(), values

    def _part(self, part: Part | None) -> tuple[Array, float]:
        for written, factor in reversed(self._in_total):
            if _covers(written, part):
                return self.place(part), factor
        return _cut(self._mine.values, part), self._mine.factor

    def place(self, part: Part | None) -> Array:
        """Where a part of the sum of all hosts belongs."""
        return _cut(self._mine.total, part)

    def take(self, hop: Hop, came: CamePart) -> None:
        """Add the received part to this host's sum, or put it in its place, as `hop` says."""
        clock, name, version, factor = _ABOUT.unpack_from(came.about)
        self._check_alike(came.source, About(clock, name, version))
        heard = np.frombuffer(came.about, offset=_ABOUT.size)
        self.weights = [theirs if mine == UNKNOWN else mine for mine, theirs in zip(self.weights, heard, strict=True)]
        into = self.place(hop.part)
        if not hop.replaces:
            factor = self._add(*self._part(hop.part), came.values, factor, into)
        elif not came.is_in_place:
            np.copyto(into, came.values)
        self._in_total.append((hop.part, factor))
        self.at += 1
        self._complete()

    def _add(self, mine: Array, my_factor: float, theirs: Array, their_factor: float, into: Array) -> float:
        """Add two parts; returns what the sum is to be multiplied by."""
        number = into.dtype.type
        if not their_factor:
            np.copyto(into, mine)
            return my_factor
        if not my_factor:
            np.copyto(into, theirs)
            return their_factor
        if self._op == MAX:
            np.maximum(mine, theirs, out=into)
            return 1.0
        if my_factor == their_factor:
            np.add(mine, theirs, out=into)
            return my_factor
        theirs = theirs * number(their_factor)
        np.multiply(mine, number(my_factor), out=into)
        np.add(into, theirs, out=into)
        return 1.0

    def _complete(self) -> None:
        """If the part that this host completes has all contributions now, divide it where a mean is asked for."""
        if self.at != self._plan.num_before:
            return
        part = self._plan.completed
        values, factor = self._part(part)
        into = self.place(part)
        divisor = sum(self.weights) / factor if self._op == MEAN and factor else 1.0
        if divisor != 1.0:
            np.divide(values, into.dtype.type(divisor), out=into)
        elif not self._in_total:
            np.copyto(into, values)

    def _check_alike(self, source: NodeId, theirs: About) -> None:
        mine = self._about
        if (theirs.clock, theirs.name) != (mine.clock, mine.name):
            raise IllegalAction(
                f"a reduction at clock {mine.clock} met another one of its bucket on worker {source}, "
                f"at clock {theirs.clock}."
            )
        if theirs.version != mine.version:
            raise ConfigError(
                f"worker {source} and this one, on different hosts, have not skipped the same steps, so their "
                "parameters would differ.\n"
                "  Skip a step on all workers or on none: a test on the reduced gradient is the same for all."
            )


def _cut(array: Array, part: Part | None) -> Array:
    if part is None:
        return array
    start, stop = part.bounds(len(array))
    return array[start:stop]


def _covers(one: Part | None, other: Part | None) -> bool:
    """Whether all of `other` is in `one`."""
    if one is None or other is None:
        return one is None
    return one.which * other.of <= other.which * one.of and (other.which + 1) * one.of <= (one.which + 1) * other.of
