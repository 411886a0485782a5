"""What worker.share gives: iterable once for each epoch, with all that the data has."""

import copy
from collections.abc import Iterator

import pytest

from weft.adapters.shared import Shared


class Data:
    batch_size = 3
    dataset = "all"

    def __getitem__(self, place: int) -> int:
        return place


def shared() -> Shared[int]:
    begun: list[int] = []

    def begin() -> Iterator[int]:
        begun.append(1)
        yield from (10 * len(begun) + item for item in range(3))

    return Shared(Data(), begin, lambda: 3)


def test_every_iteration_is_a_share_of_its_own_that_begins_with_its_first_batch() -> None:
    each = shared()
    iter(each)
    assert [list(each), list(enumerate(each))] == [[10, 11, 12], [(0, 20), (1, 21), (2, 22)]]


def test_a_share_that_next_has_begun_is_gone_on_with() -> None:
    each = shared()
    assert (next(each), next(each), list(each), list(each)) == (10, 11, [12], [20, 21, 22])
    assert [next(each), next(each), next(each)] == [30, 31, 32]
    with pytest.raises(StopIteration):
        next(each)
    assert next(each) == 40


def test_it_has_the_length_of_the_share_and_all_else_of_the_data_and_takes_no_changes() -> None:
    each = shared()
    assert (len(each), each.batch_size, each.dataset) == (3, 3, "all")
    with pytest.raises(AttributeError, match="'Data' object has no attribute 'sampler'"):
        _ = each.sampler
    with pytest.raises(AttributeError):
        setattr(each, "batch_size", 4)  # noqa: B010 - it has no such attribute to type checkers


def test_a_copy_is_a_share_of_the_same_data() -> None:
    each = copy.copy(shared())
    assert (len(each), each.batch_size, list(each)) == (3, 3, [10, 11, 12])


def test_special_methods_and_what_is_its_own_are_not_looked_for_in_the_data() -> None:
    each = shared()
    with pytest.raises(AttributeError, match=r"^'Shared' object has no attribute '__getitem__'$"):
        _ = each.__getitem__
    with pytest.raises(AttributeError, match=r"^'Shared' object has no attribute '_data'$"):
        _ = Shared.__new__(Shared)._data
