"""A codec: the immutable, comparable recipe by which an array becomes fewer bytes, and an array again.

Payloads are contiguous arrays of bytes. What a codec leaves out goes to the residual, if there is one:
values + old residual = decoded + new residual. Numbers that are not finite are not spread: each counts as 0, its
residual stays as it was, and whoever encodes is told how many there were.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import CodecError, ConfigError
from weft.core.names import Carries, Tensors

Array = NDArray[Any]
Payload = NDArray[np.uint8]

GRADIENTS = frozenset({Carries.GRADIENT, Carries.DELTA, Carries.COPY})
"""What a codec may carry that leaves much out, if it keeps a residual: what is not said now is said later."""

ANYTHING = GRADIENTS | {Carries.STATE}
"""What a codec may carry that is right to a few digits."""


class Form(NamedTuple):
    """What is encoded: how many numbers of what size, and which tensors they are (none: one vector)."""

    num_elements: int
    itemsize: int = 4
    tensors: Tensors = ()

    @property
    def num_bytes(self) -> int:
        return self.num_elements * self.itemsize

    @property
    def dtype(self) -> "np.dtype[Any]":
        return np.dtype(f"f{self.itemsize}")


class Turn(NamedTuple):
    """When something is encoded: at which step, and from which numbers random choices follow."""

    clock: int = 0
    draw: int = 0
    """Differs from worker to worker."""
    common: int = 0
    """The same on all workers."""


class Encoded(NamedTuple):
    """A payload, and how many of the values were not finite and therefore count as 0 in it."""

    payload: Payload
    num_not_finite: int = 0


@dataclass(frozen=True)
class Codec:
    """Base of all codecs: parameters are fields, checked in `__post_init__` with the legal range."""

    carries: ClassVar[frozenset[Carries]] = GRADIENTS
    """What it may carry."""
    adds_up: ClassVar[bool] = False
    """Payloads can be summed without being decoded: `merge` does it."""
    varies: ClassVar[bool] = False
    """The size depends on the values; `size` is the most that it can be."""
    votes: ClassVar[bool] = False
    """Says only signs: it wants a majority vote."""
    takes_momentum: ClassVar[bool] = False
    """It keeps a velocity instead of the optimizer: `taking_over` tells it the momentum."""
    leads_on: ClassVar[bool] = False
    """It only agrees on something, which another stage is given: by itself it says nothing of the array."""
    captures: ClassVar[bool] = False
    """It encodes factors that the adapter captures."""

    @property
    def wants_feedback(self) -> bool:
        """What is left out must be kept and said later, or training suffers."""
        return True

    def __str__(self) -> str:
        """As a user would write it."""
        said = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        name = type(self).__name__.lower()
        return f"{name}({', '.join(said)})" if said else name

    def stages(self) -> "tuple[Codec, ...]":
        """The codecs that do its work, each given what the one before agreed on; most have only themselves."""
        return (self,)

    def taking_over(self, momentum: float) -> "Codec":
        """The same with the optimizer's momentum."""
        raise NotImplementedError

    def check_forms(self, forms: Sequence[Form]) -> None:
        """Raise ConfigError unless it can encode a model of such arrays."""
        for form in forms:
            self.check_form(form)

    def check_form(self, form: Form) -> None:
        """Raise ConfigError unless it can encode such an array."""
        if form.itemsize not in (4, 8):
            raise ConfigError(
                f"numbers of {form.itemsize} bytes cannot be encoded, but only float32 and float64.\n"
                "  Leave out the codec, or keep the model in float32."
            )

    def __or__(self, second: "Codec") -> "Codec":
        """`topk(0.01) | qsgd(7)`: what the first keeps is encoded by the second."""
        from weft.codecs.chain import Chain

        return Chain(self, second)

    def prepare(self, itemsize: int) -> None:
        """Compile, or load from the cache, what it needs for numbers of this size."""
        form = Form(1, itemsize)
        encoded = self.encode(np.ones(1, form.dtype), np.zeros(1, form.dtype), form, Turn())
        self.check(encoded.payload, form)
        self.decode(encoded.payload, np.empty(1, form.dtype), form)

    def size(self, form: Form, clock: int = 0) -> int:
        """How many bytes a payload has, exactly; the most that it can have if the size varies."""
        raise NotImplementedError

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        """The payload of values + residual; what it leaves out is in the residual then, if there is one.

        `given` is what some codecs need besides: dgc a velocity, which it changes; others what was agreed on before.
        """
        raise NotImplementedError

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        """Raise CodecError unless `payload` is one of such an array: its size, indices, scales. Allocates little."""
        size = self.size(form, clock)
        if len(payload) != size and not (self.varies and len(payload) < size):
            raise CodecError(f"a payload has {len(payload)} bytes, but {form.num_elements} numbers become {size}.")

    def decode(self, payload: Payload, into: Array, form: Form, given: Array | None = None) -> None:
        """Write what a payload says into an array."""
        into[...] = 0
        self.add(payload, into, 1.0, form, given)

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        """into += scale * what a payload says, for one that was checked."""
        raise NotImplementedError

    def can_merge(self, payload: Payload, other: Payload) -> bool:
        """Two payloads can be summed without being decoded."""
        return self.adds_up

    def merge(self, into: Payload, keep: float, payload: Payload, scale: float, form: Form) -> None:
        """into = keep * into + scale * payload, if payloads add up."""
        raise NotImplementedError
