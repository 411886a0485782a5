"""What an object's state is in a checkpoint: plain data as typed records, and tensors by their names in a file.

The records are a closed union that msgspec checks when a manifest is decoded: nothing is ever made of a class that a
file names, and nothing is unpickled.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
from msgspec import Struct

from weft.checkpoints.tensor_file import NUMPY_TYPES, TensorBytes, clean_name

INT_MAX = 2**53
"""Larger whole numbers are written as text: not every reader of JSON has them."""
TABLES: Mapping[str, Callable[[Any], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": Counter,
    "defaultdict": dict,
}
"""The classes of mappings by name; a defaultdict comes back as a dict, since its function has no plain form."""
NAME_CHARACTERS = 512
KEYS = (str, int, float, bool, type(None))

AsTensor = Callable[[Any], TensorBytes | None]
"""A framework's tensor as bytes; None for anything else."""
ToTensor = Callable[[TensorBytes], Any]


class NotPlain(Exception):
    """A value that has no form; the text says where it is and what it is."""


class Plain(Struct, frozen=True, tag="plain"):
    value: bool | int | float | str | None


class BigInt(Struct, frozen=True, tag="int"):
    text: str


class NotFiniteFloat(Struct, frozen=True, tag="float"):
    text: str


class RawBytes(Struct, frozen=True, tag="bytes"):
    value: bytes


class ListForm(Struct, frozen=True, tag="list"):
    items: "list[Form]"


class TupleForm(Struct, frozen=True, tag="tuple"):
    items: "list[Form]"


class TableForm(Struct, frozen=True, tag="table"):
    kind: str
    items: "list[tuple[Form, Form]]"


class TensorRef(Struct, frozen=True, tag="tensor"):
    """A framework's tensor, by its name in the worker's file."""

    name: str


class ArrayRef(Struct, frozen=True, tag="array"):
    """A numpy array, or a numpy scalar."""

    name: str
    is_scalar: bool = False


Form = Plain | BigInt | NotFiniteFloat | RawBytes | ListForm | TupleForm | TableForm | TensorRef | ArrayRef


class Packing:
    """Makes forms of values, and collects their tensors in `tensors` by name."""

    def __init__(self, as_tensor: AsTensor) -> None:
        self._as_tensor = as_tensor
        self.tensors: dict[str, TensorBytes] = {}

    def put(self, name: str, tensor: TensorBytes) -> str:
        """Add a tensor; its name, with a number after it if there is another of that name."""
        base = clean_name(name[:NAME_CHARACTERS])
        free, number = base, 2
        while free in self.tensors:
            free, number = f"{base}#{number}", number + 1
        self.tensors[free] = tensor
        return free

    def pack(self, value: Any, name: str) -> Form:
        """The form of a value; its tensors' names begin with `name`. Raises NotPlain for what has none."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return Plain(value)
        if kind is int:
            return Plain(value) if abs(value) <= INT_MAX else BigInt(str(value))
        if kind is float:
            return Plain(value) if isfinite(value) else NotFiniteFloat(repr(value))
        if kind is bytes:
            return RawBytes(value)
        if kind in (list, tuple):
            items = [self.pack(item, f"{name}.{place}") for place, item in enumerate(value)]
            return ListForm(items) if kind is list else TupleForm(items)
        if kind in (dict, OrderedDict, Counter, defaultdict):
            return self._pack_table(value, name)
        if isinstance(value, np.ndarray | np.generic) and value.dtype in NUMPY_TYPES:
            array = np.ascontiguousarray(value)
            entry = TensorBytes(NUMPY_TYPES[array.dtype], value.shape, array.reshape(-1).view(np.uint8).data)
            return ArrayRef(self.put(name, entry), is_scalar=isinstance(value, np.generic))
        tensor = self._as_tensor(value)
        if tensor is None:
            raise NotPlain(f"'{name}' is a {kind.__module__}.{kind.__qualname__}")
        return TensorRef(self.put(name, tensor))

    def _pack_table(self, value: Mapping[Any, Any], name: str) -> Form:
        odd = next((key for key in value if type(key) not in KEYS), None)
        if odd is not None:
            raise NotPlain(f"'{name}' has a key that is a {type(odd).__qualname__}")
        within = f"{name}." if name else ""
        pairs = [(self.pack(key, name), self.pack(item, f"{within}{key}")) for key, item in value.items()]
        return TableForm(type(value).__name__, pairs)


def unpack(form: Form, tensors: Mapping[str, TensorBytes], to_tensor: ToTensor) -> Any:
    """The value of a form. Raises KeyError or ValueError for one that refers to what is not there."""
    if isinstance(form, Plain | RawBytes):
        return form.value
    if isinstance(form, BigInt):
        return int(form.text[:4096])
    if isinstance(form, NotFiniteFloat):
        return float(form.text)
    if isinstance(form, ListForm | TupleForm):
        items = [unpack(item, tensors, to_tensor) for item in form.items]
        return items if isinstance(form, ListForm) else tuple(items)
    if isinstance(form, TableForm):
        made = TABLES[form.kind]({})
        for key, item in form.items:
            made[unpack(key, tensors, to_tensor)] = unpack(item, tensors, to_tensor)
        return made
    if isinstance(form, ArrayRef):
        array = tensors[form.name].as_array()
        return array[()] if form.is_scalar else array
    return to_tensor(tensors[form.name])
