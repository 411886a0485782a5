"""Numbers at random places, the same on all workers: what they send adds up."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codecs.codec import Array, Form, Payload, Turn
from weft.codecs.picking import gather
from weft.codecs.ranges import check_fraction
from weft.codecs.sparse import WORD, Picked, Places, Sparsifier, kept, take
from weft.core.errors import CodecError

EVERY_BIT = (1 << 64) - 1


def mixed(numbers: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The splitmix64 of numbers: neighbours become unrelated."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def drawn_places(seed: int, number: int, num_elements: int) -> Places:
    """One place in each of `number` near-equal stretches of the array: rising, and every place about equally likely."""
    edges = np.arange(number + 1, dtype=np.int64) * num_elements // number
    lengths = np.diff(edges)
    with np.errstate(over="ignore"):
        draws = mixed(np.arange(number, dtype=np.uint64) + np.uint64(seed))
    places: Places = edges[:-1] + ((draws >> np.uint64(32)) * lengths.astype(np.uint64) >> np.uint64(32)).astype(
        np.int64
    )
    return places


@dataclass(frozen=True)
class RandomK(Sparsifier):
    """A `fraction` of the numbers, one at random from each of as many stretches; others are said at other times.

    All workers choose the same places at the same clock, so payloads are summed as they are. A payload is the seed
    that the places follow from (8 bytes), then the numbers.
    """

    fraction: float = 0.01
    adds_up: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction("randomk", self.fraction, usual=0.01)

    def most(self, form: Form, clock: int) -> int:
        return kept(self.fraction, form)

    def pick(self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None) -> Picked:
        gathered, _ = gather(values, residual, form)
        places = drawn_places(self._seed(turn), kept(self.fraction, form), form.num_elements)
        return take(gathered.total, residual, places, gathered.bad)

    def places_size(self, form: Form, number: int) -> int:
        return WORD

    def write_places(self, picked: Picked, payload: Payload, form: Form, turn: Turn) -> None:
        payload[:WORD].view(np.uint64)[0] = self._seed(turn)

    def read_number(self, payload: Payload, form: Form, clock: int | None = None) -> int:
        return kept(self.fraction, form)

    def check_places(self, payload: Payload, form: Form, number: int) -> None:
        """Every seed is one."""

    def read_places(self, payload: Payload, form: Form, number: int) -> Places:
        return drawn_places(int(payload[:WORD].view(np.uint64)[0]), number, form.num_elements)

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        number = kept(self.fraction, form)
        into[self.read_places(payload, form, number)] += into.dtype.type(scale) * self.numbers(payload, form, number)

    def can_merge(self, payload: Payload, other: Payload) -> bool:
        return payload[:WORD].tobytes() == other[:WORD].tobytes()

    def merge(self, into: Payload, keep: float, payload: Payload, scale: float, form: Form) -> None:
        if not self.can_merge(into, payload):
            raise CodecError(
                "payloads of 'randomk' have other places each, but only those of one clock and one seed add up."
            )
        sums, numbers = into[WORD:].view(form.dtype), payload[WORD:].view(form.dtype)
        sums *= form.dtype.type(keep)
        sums += form.dtype.type(scale) * numbers

    def _seed(self, turn: Turn) -> int:
        with np.errstate(over="ignore"):
            start = mixed(np.array([turn.common & EVERY_BIT], np.uint64)) + np.uint64(turn.clock & EVERY_BIT)
        return int(mixed(start)[0])
