"""The nouns that events and actions are made of: nodes, roles, buckets, slots, buffers."""

from enum import Enum
from math import prod
from typing import NamedTuple

NodeId = int

PARAMS = "params"
"""The slot of the replica itself."""

GRADIENT = "gradient"
"""The slot that backward fills."""

GIVEN = "given"
"""What a worker contributes to `gradient`: the same memory, unless a driver reduces from one into the other."""

INBOX = "inbox"
"""The slot that names a received body while its event is answered (rule 5 of docs/architecture.md)."""

CENTRE = "centre"
"""The slot of a model that is between the replicas and that every worker keeps alike."""


WELCOME = "welcome"
"""The kind of message by which a newcomer is given what it takes over (decision 0040)."""


class Role(Enum):
    """What a node does: workers compute, servers keep parameters for others."""

    WORKER = "worker"
    SERVER = "server"


class Roles(NamedTuple):
    """How many nodes of each role a strategy wants; workers have the ids 0 to num_workers - 1."""

    num_workers: int
    num_servers: int = 0


class Carries(Enum):
    """What messages of a kind carry, so that configuration can map kinds to codecs (rule 8)."""

    GRADIENT = "gradient"
    DELTA = "delta"
    """A difference of parameters: what is left of it now can be said later."""
    COPY = "copy"
    """Parameters that the receiver takes over as they are; they can travel as the difference to those it has."""
    STATE = "state"
    """Parameters that are averaged, or that the receiver knows nothing of."""
    EXACT = "exact"
    """What both ends count on to the last bit, such as mass that one gives and the other takes."""
    NOTHING = "nothing"


class Result(Enum):
    """Which model is the outcome of a run."""

    REPLICA = "replica"
    """Worker 0's replica: all replicas are equal."""
    MEAN = "mean"
    """The mean of the workers' replicas."""
    SERVERS = "servers"
    """What the servers hold."""
    CENTRE = "centre"
    """What every worker keeps alike in the slot `centre`."""
    BEST = "best"
    """The replica of the worker with the best score."""
    ENSEMBLE = "ensemble"
    """All workers' replicas, which predict together: by the mean of what they predict."""


def member(worker: NodeId) -> str:
    """What the names of a member's tensors begin with in the file of an ensemble."""
    return f"member{worker}."


class Part(NamedTuple):
    """The `which`-th of `of` near-equal pieces of a bucket."""

    which: int
    of: int

    def bounds(self, num_elements: int) -> tuple[int, int]:
        """Where the part begins and ends. Parts nest: halves are made of whole quarters, for any size."""
        return num_elements * self.which // self.of, num_elements * (self.which + 1) // self.of


class Buffer(NamedTuple):
    """A tensor's name: a peer names tensors and never holds one (rule 1)."""

    slot: str
    bucket: int
    part: Part | None = None


Tensors = tuple[tuple[int, tuple[int, ...]], ...]
"""Where each tensor of a bucket begins, and its shape."""


class Bucket(NamedTuple):
    """A contiguous piece of the model; `trainable` is False for state such as BatchNorm's means.

    `tuned`: not of the model itself, but hyper-parameters that the script lets a population change.
    `tensors` are named where the bucket is made of them; otherwise it is one vector. `flagged`: behind each tensor is
    one number more, which says whether it has a gradient.
    """

    num_elements: int
    itemsize: int = 4
    trainable: bool = True
    tuned: bool = False
    tensors: Tensors = ()
    flagged: bool = False

    @property
    def num_bytes(self) -> int:
        return self.num_elements * self.itemsize

    @property
    def flags(self) -> tuple[int, ...]:
        """The places of the flags."""
        return tuple(start + prod(shape) for start, shape in self.tensors) if self.flagged else ()


class Slot(NamedTuple):
    """Memory that a strategy needs: one array for each bucket, of the bucket's size, zero at the start."""

    name: str
