"""What is not zero, or everything if that is shorter."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codecs.codec import ANYTHING, Array, Encoded, Form, Payload, Turn
from weft.codecs.picking import gather, sizes_of
from weft.codecs.sparse import WORD, Picked, Sparsifier, check_numbers, take
from weft.core.errors import CodecError
from weft.core.names import Carries

DENSE, SPARSE = 0, 1


@dataclass(frozen=True)
class Nonzeros(Sparsifier):
    """Nothing is lost: the numbers that are not 0 and where they are, or all of them where that is fewer bytes.

    That is the wire of SparCML's sparse all-reduce (Renggli et al. 2018). A word of 8 bytes says which follows.
    """

    carries: ClassVar[frozenset[Carries]] = ANYTHING
    varies: ClassVar[bool] = True

    @property
    def wants_feedback(self) -> bool:
        return False

    def most(self, form: Form, clock: int) -> int:
        return form.num_elements

    def pick(self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None) -> Picked:
        gathered, _ = gather(values, residual, form)
        return take(gathered.total, residual, np.flatnonzero(sizes_of(gathered) > 0), gathered.bad)

    def size(self, form: Form, clock: int = 0) -> int:
        return WORD + form.num_bytes

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        picked = self.pick(values, residual, form, turn, given)
        number = len(picked.places)
        is_sparse = self.sized(form, number) < form.num_bytes
        payload = np.empty(WORD + (self.sized(form, number) if is_sparse else form.num_bytes), np.uint8)
        payload[:WORD] = 0
        body = payload[WORD:]
        if is_sparse:
            payload[0] = SPARSE
            self.write_places(picked, body, form, turn)
            self.numbers(body, form, number)[:] = picked.numbers
        else:
            body[:] = 0
            body.view(form.dtype)[picked.places] = picked.numbers
        return Encoded(payload, picked.num_not_finite)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        if not WORD <= len(payload) <= self.size(form, clock):
            raise CodecError(
                f"a payload has {len(payload)} bytes, but {form.num_elements} numbers become {self.size(form, clock)} "
                "at most."
            )
        tag, body = int(payload[:WORD].view(np.uint64)[0]), payload[WORD:]
        if tag == SPARSE:
            self._check_sparse(body, form, clock)
        elif tag != DENSE or len(body) != form.num_bytes:
            raise CodecError(
                f"a payload of kind {tag} has {len(payload)} bytes, but all {form.num_elements} numbers are kind "
                f"{DENSE} and {self.size(form, clock)} bytes."
            )
        else:
            check_numbers(body.view(form.dtype))

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        body = payload[WORD:]
        if payload[0] == SPARSE:
            super().add(body, into, scale, form, given)
        else:
            into += form.dtype.type(scale) * body.view(form.dtype)

    def _check_sparse(self, body: Payload, form: Form, clock: int) -> None:
        super().check(body, form, clock)
