"""Values that processes of a host share."""

import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.adapters.sharing import can_share, free, load, store

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner), max_leaves=8
)


@pytest.fixture
def file() -> Iterator[int]:
    fd = os.memfd_create("once")
    yield fd
    os.close(fd)


def shared(fd: int, value: Any) -> Any:
    form, _ = store(fd, 0, value)
    assert form
    return load(fd, form)


@pytest.mark.slow
@given(value=VALUES)
def test_plain_values_come_back_as_they_were_or_are_said_to_have_no_form(value: Any) -> None:
    fd = os.memfd_create("once")
    form, stop = store(fd, 0, value)
    assert stop == 0
    if form:
        assert repr(load(fd, form)) == repr(value)
    os.close(fd)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(12, dtype=np.int16).reshape(3, 4).T,
        np.arange(20)[::3],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(5.0, np.float16),
        np.zeros((0, 3), np.int8),
        np.array([True, False]),
        np.array(["ab", "cde"]),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([1.5, 2.5], ">f4"),
        np.array([1 + 2j]),
    ],
    ids=lambda array: f"{array.dtype.str} {array.shape}",
)
def test_arrays_come_back_with_their_type_shape_and_values(file: int, array: Any) -> None:
    got = shared(file, {"before": np.ones(3, np.int8), "it": array})["it"]
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert got.tolist() == array.tolist()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).T,
        torch.tensor(2.0),
        torch.zeros(0),
        torch.ones(3) > 0,
    ],
    ids=lambda tensor: f"{tensor.dtype} {tuple(tensor.shape)}",
)
def test_tensors_come_back_as_tensors(file: int, tensor: torch.Tensor) -> None:
    (got,) = shared(file, (tensor,))
    assert type(got) is torch.Tensor
    assert (got.dtype, got.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(got, tensor)


def test_a_script_that_imports_torch_only_where_it_loads_gets_tensors(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, _ = store(file, 0, torch.ones(2))
    assert form
    monkeypatch.setattr("weft.adapters.sharing.sys", type("NoTorch", (), {"modules": {}}))
    assert torch.equal(load(file, form), torch.ones(2))
    assert "torch" in sys.modules


class Text(str):
    """A type of somebody's own."""


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        {1: "a"},
        Text("a"),
        {Text("a"): 1},
        np.float64(1.0),
        2**64,
        "\udc80",
        np.array([None]),
        np.zeros(2, [("a", "f4"), ("b", "i2")]),
        np.ma.masked_array([1, 2], [True, False]),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, 2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, requires_grad=True),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)
def test_what_would_not_come_back_as_it_was_has_no_form_and_leaves_no_bytes(file: int, value: Any) -> None:
    kept, stop = store(file, 0, np.arange(3))
    assert store(file, stop, [np.ones(1000), value]) == (b"", stop)
    assert os.fstat(file).st_size == stop
    assert kept
    assert load(file, kept).tolist() == [0, 1, 2]


def test_values_do_not_lie_upon_each_other_even_when_they_were_promised_the_same_place(file: int) -> None:
    """Two workers load different things at once, or one loads something while it loads another."""
    forms = [store(file, 0, np.full(50 + i, i))[0] for i in range(3)]
    assert all(forms)
    assert [load(file, form or b"").tolist() for form in forms] == [[i] * (50 + i) for i in range(3)]


def test_what_a_process_writes_stays_its_own(file: int) -> None:
    form, _ = store(file, 0, np.zeros(3))
    assert form
    first, second = load(file, form), load(file, form)
    first[:] = 7.0
    assert second.tolist() == [0, 0, 0]
    assert load(file, form).tolist() == [0, 0, 0]


def test_arrays_are_aligned_and_loaded_without_a_copy(file: int) -> None:
    value = [np.ones(3, np.int8), np.arange(1000.0)]
    got = shared(file, value)[1]
    assert got.ctypes.data % 64 == 0
    assert not got.flags.owndata


@pytest.mark.parametrize(
    "value", [1, "text", None, [1, (2.5, b"3")], {"a": {"b": np.zeros(3)}}, torch.zeros(2), np.zeros((0, 2))]
)
def test_what_has_a_plain_form_is_known_without_storing_it(file: int, value: Any) -> None:
    assert can_share(value)
    assert store(file, 0, value)[0]


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2}, [{"a": {2, 3}}], 2**64, "\ud800", np.array([object()]), torch.zeros(2, dtype=torch.bfloat16)],
)
def test_what_has_no_plain_form_is_known_without_storing_it(file: int, value: Any) -> None:
    assert not can_share(value)
    assert store(file, 0, value)[0] == b""


PAGE = mmap.PAGESIZE


@pytest.mark.parametrize(
    ("start", "stop", "first", "last"),
    [
        (PAGE, 3 * PAGE, PAGE, 3 * PAGE),
        (PAGE + 1, 3 * PAGE - 1, 2 * PAGE, 2 * PAGE),
        (10, 2 * PAGE + 10, PAGE, 2 * PAGE),
        (PAGE - 64, 3 * PAGE + 64, PAGE, 3 * PAGE),
        (10, 20, 0, 0),
        (0, 0, 0, 0),
    ],
)
def test_only_whole_pages_are_freed_and_all_else_stays_as_it_was(
    file: int, start: int, stop: int, first: int, last: int
) -> None:
    before = bytes([7]) * (4 * PAGE)
    os.pwrite(file, before, 0)
    free(file, start, stop)
    assert os.pread(file, 5 * PAGE, 0) == before[:first] + bytes(last - first) + before[last:], "the size stays, too"


def test_freed_memory_is_given_back_to_the_system(file: int) -> None:
    os.pwrite(file, bytes([7]) * (64 * PAGE), 0)
    before = os.fstat(file).st_blocks
    free(file, 0, 64 * PAGE)
    assert (os.fstat(file).st_blocks, os.fstat(file).st_size) == (0, 64 * PAGE)
    assert before > 0


def test_what_was_stored_before_and_after_is_still_there_when_a_value_is_freed(file: int) -> None:
    arrays = [np.full(PAGE, value, np.int64) for value in (1, 2, 3)]
    ends, forms = [0], []
    for array in arrays:
        form, stop = store(file, ends[-1], array)
        forms.append(form)
        ends.append(stop)
    free(file, ends[1], ends[2])
    first, _, last = (load(file, form) for form in forms if form)
    assert np.array_equal(first, arrays[0])
    assert np.array_equal(last, arrays[2])
