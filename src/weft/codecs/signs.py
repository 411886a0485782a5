"""Signs, eight to a byte: what onebit and signsgd have in common."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.codecs.rounding import nothing


@dataclass(frozen=True)
class Signs(Codec):
    """Means of each block first, if there are any, as large as its numbers; then a bit for each number: 1 from 0 on.

    A value that is not finite counts as 0, which has a sign, too: its residual takes what that sign says too much.
    """

    has_means: ClassVar[bool] = True

    @property
    def block_size(self) -> int:
        raise NotImplementedError

    def size(self, form: Form, clock: int = 0) -> int:
        return self._means_size(form) + -(-form.num_elements // 8)

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        from weft.codecs.kernels import signs

        payload = np.empty(self.size(form), np.uint8)
        block = np.empty(self.block_size, form.dtype)
        num_not_finite = signs.encode(
            values,
            nothing(form) if residual is None else residual,
            block,
            *self._parts(payload, form),
        )
        return Encoded(payload, num_not_finite)

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, scale, form, adds=True)

    def decode(self, payload: Payload, into: Array, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, 1.0, form, adds=False)

    def _put(self, payload: Payload, into: Array, scale: float, form: Form, *, adds: bool) -> None:
        from weft.codecs.kernels import signs

        signs.add(*self._parts(payload, form), into, self.block_size, scale, adds)

    def _means_size(self, form: Form) -> int:
        return 2 * form.itemsize * -(-form.num_elements // self.block_size) if self.has_means else 0

    def _parts(self, payload: Payload, form: Form) -> tuple[Array, Payload]:
        end = self._means_size(form)
        return payload[:end].view(form.dtype), payload[end:]
