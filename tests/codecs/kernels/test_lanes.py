"""Bits of numbers, and eight at a time."""

from typing import Any

import numba
import numpy as np
import pytest

from weft.codecs.kernels import lanes

bits_of, number_of, signs, reach, put_signs = lanes.bits_of, lanes.number_of, lanes.signs, lanes.reach, lanes.put_signs
half_bits, half_number = lanes.half_bits, lanes.half_number
part, reach_64, num_ones, first_one = lanes.part, lanes.reach_64, lanes.num_ones, lanes.first_one
brain_bits, brain_number = lanes.brain_bits, lanes.brain_number


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_and_their_bits(dtype: type) -> None:
    @numba.njit
    def there_and_back(number: Any) -> Any:
        return bits_of(number), number_of(bits_of(number))

    number = dtype(-1.75)
    assert there_and_back(number) == (int(np.array(number).view(f"i{number.itemsize}")), -1.75)


def test_halves_and_their_bits() -> None:
    @numba.njit
    def there_and_back(number: Any) -> Any:
        return half_bits(number), half_number(half_bits(number))

    assert there_and_back(np.float32(0.1)) == (np.float16(0.1).view(np.uint16), np.float32(np.float16(0.1)))


def test_bfloats_and_their_bits() -> None:
    @numba.njit
    def there_and_back(number: Any) -> Any:
        return brain_bits(number), brain_number(brain_bits(number))

    assert there_and_back(np.float32(1 + 2.0**-8)) == (0x3F80, 1.0)
    assert there_and_back(np.float32(-1 - 3 * 2.0**-8)) == (0xBF82, -1 - 2.0**-6)


def test_bytes_of_comparisons() -> None:
    @numba.njit
    def compared(numbers: Any, integers: Any) -> Any:
        return signs(numbers, 1), reach(integers, 1, integers[0])

    numbers = np.array([9, 1, -1, 0, -0.0, np.nan, -5, 5, -np.inf], np.float32)
    integers = np.array([3, 3, 2, 4, -9, 3, 0, 0, 9], np.int32)
    assert compared(numbers, integers) == (0b01001101, 0b10010101)


def test_a_word_of_comparisons_is_counted_and_gone_through() -> None:
    @numba.njit
    def compared(integers: Any, least: Any) -> Any:
        word = reach_64(integers, 1, least)
        return num_ones(word), first_one(word)

    integers = np.zeros(65, np.int64)
    integers[[0, 7, 64]] = 5, 5, 6
    assert [compared(integers, least) for least in (0, 5, 6, 7)] == [(64, 0), (2, 6), (1, 63), (0, 64)]


def test_a_part_is_a_slice_of_the_same_memory() -> None:
    @numba.njit
    def write(numbers: Any) -> Any:
        those = part(numbers, 2, 5)
        those[:] = 7
        return those.size, part(those, 3, 3).size

    numbers = np.zeros(6, np.float32)
    assert write(numbers) == (3, 0)
    assert numbers.tolist() == [0, 0, 7, 7, 7, 0]


def test_bits_become_one_of_two_numbers() -> None:
    @numba.njit
    def put(numbers: Any, byte: Any, adds: Any) -> Any:
        put_signs(numbers, 1, byte, 5.0, -7.0, adds)

    numbers = np.ones(10)
    put(numbers, np.uint8(0b10000001), True)
    assert numbers.tolist() == [1, 6, -6, -6, -6, -6, -6, -6, 6, 1]
    put(numbers, np.uint8(0b10000001), False)
    assert numbers.tolist() == [1, 5, -7, -7, -7, -7, -7, -7, 5, 1]
