"""Two codecs in a row: one chooses which numbers are sent, the other how."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codecs.casts import Cast
from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.codecs.rounding import Rounding
from weft.codecs.signs import Signs
from weft.codecs.sparse import Sparsifier
from weft.codecs.terngrad import TernGrad
from weft.core.errors import CodecError, ConfigError

SECONDS = (Cast, Rounding, Signs, TernGrad)


@dataclass(frozen=True)
class Chain(Codec):
    """`first | second`: the numbers that the first keeps are one vector, which the second encodes.

    A payload says where they are as the first does, and then what they are as the second does. What either leaves out
    is in the residual. A size varies only with how many numbers are kept.
    """

    first: Codec
    second: Codec
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.first, Chain):
            raise ConfigError(f"'{self.first} | {self.second}' is too long: two codecs in a row are the most.")
        if not isinstance(self.first, Sparsifier) or self.first.takes_momentum:
            raise ConfigError(
                f"'{name(self.first)} | {name(self.second)}' cannot be: '{name(self.first)}' does not choose among "
                "numbers, or does more than that.\n"
                "  Begin with topk, randomk or threshold."
            )
        if not isinstance(self.second, SECONDS) or self.second.votes:
            raise ConfigError(
                f"'{name(self.first)} | {name(self.second)}' cannot be: '{name(self.second)}' does not encode a few "
                "numbers as they come.\n  End with fp16, bf16, fp8, int8, qsgd, terngrad or onebit."
            )

    def __str__(self) -> str:
        return f"{self.first} | {self.second}"

    @property
    def wants_feedback(self) -> bool:
        return self.first.wants_feedback or self.second.wants_feedback

    def prepare(self, itemsize: int) -> None:
        self.first.prepare(itemsize)
        self.second.prepare(itemsize)

    @property
    def sparsifier(self) -> Sparsifier:
        """The first, which chooses."""
        assert isinstance(self.first, Sparsifier)
        return self.first

    def size(self, form: Form, clock: int = 0) -> int:
        return self._sized(form, self.sparsifier.most(form, clock))

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        picked = self.sparsifier.pick(values, residual, form, turn, given)
        number = len(picked.places)
        left_out = np.zeros(number, form.dtype) if residual is not None else None
        encoded = self.second.encode(picked.numbers, left_out, Form(number, form.itemsize), turn)
        if residual is not None and left_out is not None:
            residual[picked.places] += left_out
        payload = np.empty(self._sized(form, number), np.uint8)
        self.sparsifier.write_places(picked, payload, form, turn)
        payload[self.sparsifier.places_size(form, number) :] = encoded.payload
        return Encoded(payload, picked.num_not_finite)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        number = self.sparsifier.read_number(payload, form, clock)
        if len(payload) != self._sized(form, number):
            raise CodecError(
                f"a payload has {len(payload)} bytes, but {number} of {form.num_elements} numbers become "
                f"{self._sized(form, number)}."
            )
        self.sparsifier.check_places(payload, form, number)
        start = self.sparsifier.places_size(form, number)
        self.second.check(payload[start:], Form(number, form.itemsize), clock)

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        number = self.sparsifier.read_number(payload, form)
        numbers = np.empty(number, form.dtype)
        start = self.sparsifier.places_size(form, number)
        self.second.decode(payload[start:], numbers, Form(number, form.itemsize))
        into[self.sparsifier.read_places(payload, form, number)] += form.dtype.type(scale) * numbers

    def _sized(self, form: Form, number: int) -> int:
        return self.sparsifier.places_size(form, number) + self.second.size(Form(number, form.itemsize))


def name(codec: Codec) -> str:
    """What a user calls it."""
    return type(codec).__name__.lower()
