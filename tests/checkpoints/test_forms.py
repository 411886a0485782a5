"""Forms of state: what comes back is what was put in, and what has no form is named."""

from collections import Counter, OrderedDict, defaultdict
from math import inf, nan
from typing import Any

import msgspec
import numpy as np
import pytest

from weft.checkpoints.forms import Form, NotPlain, Packing, TensorRef, unpack


def there_and_back(value: Any) -> Any:
    packing = Packing(lambda value: None)
    form = msgspec.json.decode(msgspec.json.encode(packing.pack(value, "x")), type=Form)
    return unpack(form, packing.tensors, lambda tensor: tensor)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -3, 2**70, 0.1, 1.0, 1e-320, inf, -inf, "é\n", b"\x00\xff", [], (), {}, [1, (2.0, [None])],
        {"a": {3: "b", None: 1.0, True: 2}}, OrderedDict(b=1, a=2), Counter({30: 1, 80: 2}),
    ],
)  # fmt: skip
def test_plain_values_come_back_equal_and_of_the_same_type(value: Any) -> None:
    back = there_and_back(value)
    assert (back, type(back)) == (value, type(value))


def test_numbers_that_are_not_finite_arrays_and_scalars_come_back() -> None:
    assert np.isnan(there_and_back(nan))
    back = there_and_back({"a": np.arange(6, dtype="u2").reshape(2, 3)[:, ::2], "b": np.float64(0.1), "c": np.zeros(0)})
    assert back["a"].tolist() == [[0, 2], [3, 5]]
    assert (back["a"].dtype, back["b"], type(back["b"])) == (np.dtype("u2"), 0.1, np.float64)
    assert back["c"].shape == (0,)
    assert there_and_back(defaultdict(list, {1: [2]})) == {1: [2]}


@pytest.mark.parametrize(
    ("value", "because"),
    [
        ({"a": [len]}, "'x.a.0' is a builtins.builtin_function_or_method"),
        ({"a": {(1, 2): 3}}, "'x.a' has a key that is a tuple"),
        (object(), "'x' is a builtins.object"),
        (np.array(["a"]), "'x' is a numpy.ndarray"),
        ({1, 2}, "'x' is a builtins.set"),
    ],
)
def test_what_has_no_form_is_named(value: Any, because: str) -> None:
    with pytest.raises(NotPlain) as caught:
        Packing(lambda value: None).pack(value, "x")
    assert str(caught.value) == because


def test_tensors_of_one_name_get_numbers_and_names_lead_nowhere() -> None:
    packing = Packing(lambda value: None)
    packing.pack({"a.b": np.zeros(1), "a": {"b": np.ones(1)}, "../../c": np.ones(1), "\n": np.ones(1)}, "x")
    assert list(packing.tensors) == ["x.a.b", "x.a.b#2", "x.../?/c", "x.?"]


def test_a_form_that_names_a_tensor_which_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        unpack(TensorRef("y"), {}, lambda tensor: tensor)
