"""Which tensors of a store are coded: parts, wholes, and what is settled when somebody wants an array."""

import numpy as np

from weft.codecs import Form, TopK, Turn
from weft.core.names import Buffer, Part
from weft.store.coded import Coded, Meter, Shape, encode
from weft.store.coded_slots import CodedSlots

WHOLE = Buffer("mine", 0)
HALVES = [Buffer("mine", 0, Part(which, 2)) for which in range(2)]
THIRD = Buffer("mine", 0, Part(0, 3))


class Slots:
    """Coded slots over an array of twelve nines."""

    def __init__(self) -> None:
        self.array = np.full(12, 9.0, np.float32)
        self.slots = CodedSlots(self.memory, Meter())

    def memory(self, buffer: Buffer) -> np.ndarray:
        start, stop = buffer.part.bounds(12) if buffer.part else (0, 12)
        return self.array[start:stop]


def coded(size: int, value: float = 1.0) -> Coded:
    """All of `size` numbers, each of this value."""
    shape = Shape(Form(size), ())
    return encode("push", TopK(1.0), shape, np.full(size, value, np.float32), None, Turn(), None, Meter())


def test_what_is_put_is_there_by_exactly_its_name() -> None:
    slots, said = Slots().slots, coded(6)
    slots.put(HALVES[0], said)
    assert slots.get(HALVES[0]) is said
    assert [slots.get(buffer) for buffer in (HALVES[1], WHOLE, THIRD, Buffer("mine", 1), Buffer("other", 0))] == [
        None
    ] * 5


def test_settling_the_whole_settles_its_parts_and_leaves_what_is_not_coded() -> None:
    memory = Slots()
    memory.slots.put(HALVES[1], coded(6))
    memory.slots.settle(WHOLE)
    assert memory.array.tolist() == [9] * 6 + [1] * 6
    assert memory.slots.get(HALVES[1]) is None


def test_settling_a_part_leaves_its_neighbour_coded() -> None:
    memory = Slots()
    for half in HALVES:
        memory.slots.put(half, coded(6))
    memory.slots.settle(HALVES[0])
    assert memory.array.tolist() == [1] * 6 + [9] * 6
    assert memory.slots.get(HALVES[1]) is not None


def test_parts_of_another_cut_and_parts_of_a_whole_are_settled_as_they_may_overlap() -> None:
    memory = Slots()
    memory.slots.put(HALVES[0], coded(6))
    memory.slots.settle(THIRD)
    assert memory.array.tolist() == [1] * 6 + [9] * 6
    memory.slots.put(WHOLE, coded(12, 2.0))
    memory.slots.settle(HALVES[1])
    assert memory.array.tolist() == [2] * 12


def test_what_is_about_to_be_overwritten_is_not_decoded_but_what_lies_beside_it_is() -> None:
    memory = Slots()
    memory.slots.put(WHOLE, coded(12))
    memory.slots.drop(WHOLE)
    assert memory.array.tolist() == [9] * 12
    memory.slots.put(WHOLE, coded(12))
    memory.slots.drop(HALVES[0])
    assert memory.array.tolist()[6:] == [1] * 6
    memory.slots.drop(Buffer("other", 0))
    assert memory.slots.get(WHOLE) is None


def test_putting_a_whole_forgets_its_parts() -> None:
    memory = Slots()
    memory.slots.put(HALVES[0], coded(6))
    memory.slots.put(WHOLE, coded(12, 3.0))
    memory.slots.settle(WHOLE)
    assert memory.array.tolist() == [3] * 12


def test_what_was_given_when_a_buffer_was_encoded_is_there_for_what_comes_for_it() -> None:
    slots, given = Slots().slots, np.zeros(2, np.uint8)
    slots.put(WHOLE, coded(12).with_given(given))
    slots.put(WHOLE, coded(12))
    said = slots.get(WHOLE)
    assert said is not None
    assert said.given is given
