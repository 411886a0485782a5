"""A function as a script: what it uses goes with it, and what cannot is refused by name."""

import importlib
import linecache
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weft.core.errors import ConfigError
from weft.engines.functions.script import source_of, write_script

Cell = Callable[..., dict[str, Any]]
SENT = "modules, functions, classes, numbers, texts, lists, dicts, arrays and tensors can be sent"


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """What a notebook knows after a cell with this text: its functions are found by lines that stand in no file."""

    def run(text: str, *, is_known: bool = True, **names: Any) -> dict[str, Any]:
        path = tmp_path / f"cell{len(list(tmp_path.iterdir()))}.py"
        path.write_text(textwrap.dedent(text))
        known = runpy.run_path(str(path), init_globals=names, run_name="__main__")
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("")
        if is_known:
            linecache.cache[str(path)] = (1, None, lines, str(path))
        return known

    return run


def called(function: Callable[..., Any], folder: Path, *arguments: object) -> dict[str, Any]:
    """What the script of a function leaves behind when it is run, by its own means only."""
    return runpy.run_path(str(write_script(function, arguments, folder)))


def test_a_function_of_a_cell_brings_along_what_it_uses_and_nothing_else(tmp_path: Path, cell: Cell) -> None:
    known = cell(
        """
        import math
        from statistics import median as middle
        RATES = {"lr": [0.1, float("inf")], "name": ("a", b"b", None, True)}
        unused = object()

        class Base:
            pass

        class Model:
            SCALE = 2
            def __init__(self, factor):
                self.factor = factor * self.SCALE
            def __call__(self, value):
                return helper(value) * self.factor

        def helper(value):
            return math.sqrt(value) + len(RATES["lr"])

        def train(factor, *, name="x"):
            global result
            math_of_own = [middle([1, 2, value]) for value in (3,)]
            result = Model(factor)(16), math_of_own, RATES
        """
    )
    left = called(known["train"], tmp_path, 10)
    assert left["result"] == ((4 + 2) * 20, [2], {"lr": [0.1, float("inf")], "name": ("a", b"b", None, True)})
    assert "unused" not in left
    assert "Base" not in left


def test_arrays_and_tensors_go_by_files_and_are_equal(tmp_path: Path, cell: Cell) -> None:
    x, y = np.arange(6.0).reshape(2, 3), torch.arange(3)
    known = cell("def train():\n    global result\n    result = x * 2, y + 1\n", x=x, y=y)
    doubled, more = called(known["train"], tmp_path)["result"]
    assert np.array_equal(doubled, 2 * x)
    assert torch.equal(more, y + 1)


def test_arrays_and_tensors_leave_names_of_the_users_own_alone(tmp_path: Path, cell: Cell) -> None:
    text = "def train():\n    global result\n    result = numpy, torch, len(x), len(y)\n"
    known = cell(text, numpy=1, torch=2, x=np.arange(6), y=torch.arange(3))
    known["train"].__globals__.update(numpy=1, torch=2)
    assert called(known["train"], tmp_path)["result"] == (1, 2, 6, 3)


@pytest.mark.parametrize(
    "text",
    [
        "class Model(local):\n        def size(self): return 1\n",
        "class Model:\n        kinds = [int]\n        kind = local, kinds\n        def size(self): return 1\n",
        "def Model(given: local): pass\n",
    ],
)
def test_a_definition_that_uses_what_only_the_function_around_it_knew_is_refused_by_name(
    text: str, tmp_path: Path, cell: Cell
) -> None:
    known = cell(f"def around(local):\n    {text}    return Model\n\ndef train():\n    Model()\n")
    known["train"].__globals__["Model"] = known["around"](dict)
    with pytest.raises(ConfigError) as refused:
        write_script(known["train"], (), tmp_path)
    assert str(refused.value) == (
        "weft.run cannot send 'Model' to its workers: its definition uses 'local', which its module or notebook does "
        "not know.\n  Define 'local' outside of any function."
    )


def test_annotations_that_nothing_evaluates_here_are_not_evaluated_in_workers(tmp_path: Path, cell: Cell) -> None:
    known = cell(
        """
        from __future__ import annotations

        class Model:
            size: Unknown = 3
            def double(self, more: Unknown = None) -> Unknown:
                return self.size * 2

        def train(rate: Unknown = 1):
            global result
            result = Model().double()
        """
    )
    assert called(known["train"], tmp_path)["result"] == 6


def test_variables_of_the_function_around_it_go_along(tmp_path: Path, cell: Cell) -> None:
    known = cell(
        """
        def around(rate):
            def train():
                global result
                result = rate
            return train
        """
    )
    assert called(known["around"](0.5), tmp_path)["result"] == 0.5


def test_defaults_of_arguments_are_those_of_the_definition(tmp_path: Path, cell: Cell) -> None:
    known = cell(
        """
        import operator
        import numpy as np

        LR, SEEN, DATA, WORDS = 0.1, [], np.arange(3), "größer"

        class Model:
            def __init__(self, rate=LR):
                self.rate = rate
            @classmethod
            def of(cls, rate=LR * 2):
                return cls(rate)
            @staticmethod
            def plain(*, rate=LR): return rate

        def helper(value):
            return value + 1

        def train(first, lr=LR, seen=SEEN, /, data=DATA + 1, words=("ä", WORDS), *, must, more=LR, op=operator.add,
                  again=helper, key=lambda value: value + 2, other=len):
            global result
            result = lr, seen, data, words, more, op(1, 2), again(1), key(1), other("ab")
            result += Model().rate, Model.of().rate, Model.plain()

        def start(rate=LR):
            train(1, must=rate)
        """
    )
    known["start"].__globals__.update(LR=0.5, WORDS=object(), helper=None)
    known["SEEN"].append(3)
    result = called(known["start"], tmp_path)["result"]
    assert result[2].tolist() == [1, 2, 3]
    assert (*result[:2], *result[3:]) == (0.1, [3], ("ä", "größer"), 0.1, 3, 2, 3, 2, 0.1, 0.2, 0.1)


def test_lambdas_that_it_uses_go_along_with_what_they_use(tmp_path: Path, cell: Cell) -> None:
    known = cell(
        """
        LR = 0.1
        twice = lambda value, rate=LR: scaled(value) * rate
        table = {"a": 1, "scaled": (
            lambda value:
                value * FACTOR
        )}
        scaled = table["scaled"]
        FACTOR = 3
        def around(power):
            return lambda value: value ** power
        square = around(2)

        def train(key=square):
            global result
            result = twice(10), square(3), key(4)
        """
    )
    known["train"].__globals__["LR"] = 0.5
    assert called(known["train"], tmp_path)["result"] == (3.0, 9, 16)


def test_one_of_several_lambdas_in_a_line_is_refused_by_name(tmp_path: Path, cell: Cell) -> None:
    known = cell("f, g = lambda x: x, lambda x: -x\n\ndef train():\n    f(1)\n")
    with pytest.raises(ConfigError) as refused:
        write_script(known["train"], (), tmp_path)
    assert str(refused.value) == (
        "weft.run cannot send 'f' to its workers: it is one of several lambdas in a line.\n"
        "  Define it with def, or in a line of its own."
    )


def test_the_default_of_a_decorated_function_goes_along(tmp_path: Path, cell: Cell) -> None:
    known = cell(
        """
        import functools
        LR = 0.1

        def twice(function):
            @functools.wraps(function)
            def call():
                return function() * 2
            return call

        @twice
        def rate(lr=LR):
            return lr

        def train():
            global result
            result = rate()
        """
    )
    known["train"].__globals__["LR"] = 0.5
    assert called(known["train"], tmp_path)["result"] == 0.2


def test_a_default_that_cannot_be_sent_is_refused_by_the_name_of_its_parameter(tmp_path: Path, cell: Cell) -> None:
    known = cell("def train(model=object()):\n    pass\n")
    with pytest.raises(ConfigError) as refused:
        write_script(known["train"], (), tmp_path)
    assert str(refused.value) == (
        "weft.run cannot send the default of 'model' to its workers, which 'train' uses: it is a object.\n"
        f"  Make it inside of 'train', or in a function that it calls; {SENT}."
    )


def test_what_can_be_imported_is_imported(tmp_path: Path) -> None:
    text = write_script(textwrap.dedent, ("  a",), tmp_path).read_text()
    assert "from textwrap import dedent as dedent" in text
    assert "def dedent" not in text


def test_a_function_of_a_module_of_its_name_is_not_looked_for_in_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "practise.py").write_text("def practise():\n    print('practised')\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sent").mkdir()
    script = write_script(importlib.import_module("practise").practise, (), tmp_path / "sent")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "practised\n"


MODULE = (
    "import deep\nRATE, TABLE = 1, {'a': 1}\ndef rate():\n    return RATE, TABLE, deep.SIZE\ndef scaled(x): return x\n"
)


def modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that functions of a cell may import."""
    (folder / "state_of.py").write_text(MODULE)
    (folder / "deep.py").write_text("SIZE, OTHER = 1, 1\n")
    monkeypatch.syspath_prepend(folder)
    for name in ("state_of", "deep"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_what_was_set_of_modules_goes_along_to_another_process(
    tmp_path: Path, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules(tmp_path, monkeypatch)
    known = cell(
        """
        import state_of, deep
        from state_of import rate
        state_of.RATE = 3
        state_of.TABLE["b"] = 2
        deep.SIZE = 5
        def twice(x):
            return 2 * x
        state_of.scaled = twice

        class Model:
            rate = rate()
            def __init__(self): pass

        def train():
            print(Model.rate, state_of.scaled(4))
        """
    )
    sent = tmp_path / "sent"
    sent.mkdir()
    script = write_script(known["train"], (), sent)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "(3, {'a': 1, 'b': 2}, 5) 8\n"
    table = sys.modules["state_of"].TABLE
    runpy.run_path(str(script))
    assert sys.modules["state_of"].TABLE is table, "here it is set already"


def test_what_was_set_of_a_module_and_cannot_be_sent_is_refused_if_it_is_used(
    tmp_path: Path, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules(tmp_path, monkeypatch)
    text = "import state_of, deep\nstate_of.RATE = object()\ndef train():\n    print({}.__name__)\n"
    write_script(cell(text.format("deep"))["train"], (), tmp_path)
    with pytest.raises(ConfigError) as refused:
        write_script(cell(text.format("state_of"))["train"], (), tmp_path)
    assert str(refused.value) == (
        "weft.run cannot send what was set as 'state_of.RATE' to its workers, which 'train' uses: it is a object.\n"
        f"  Make it inside of 'train', or in a function that it calls; {SENT}."
    )
    unsure = text.replace("state_of.RATE =", "def later():\n    state_of.RATE =").format("state_of")
    assert write_script(cell(unsure)["train"], (), tmp_path).is_file()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (object(), "object"),
        ([object()], "list"),
        (np.array([None]), "numpy.ndarray"),
        (torch.ones(1, dtype=torch.bfloat16), "torch.Tensor"),
        (len, None),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(value: object, kind: str | None, tmp_path: Path, cell: Cell) -> None:
    known = cell("def train():\n    print(loader)\n", loader=value)
    if kind is None:
        write_script(known["train"], (), tmp_path)
        return
    with pytest.raises(ConfigError) as refused:
        write_script(known["train"], (), tmp_path)
    assert str(refused.value) == (
        f"weft.run cannot send 'loader' to its workers, which 'train' uses: it is a {kind}.\n"
        f"  Make it inside of 'train', or in a function that it calls; {SENT}."
    )


def test_arguments_that_are_not_plain_are_refused(tmp_path: Path, cell: Cell) -> None:
    known = cell("def train(model):\n    pass\n")
    with pytest.raises(ConfigError) as refused:
        write_script(known["train"], (object(),), tmp_path)
    assert str(refused.value) == (
        "weft.run was given arguments for 'train' that are not plain data.\n"
        "  Give numbers, texts, lists and dicts, and make the rest inside of the function."
    )


def test_a_function_whose_source_nobody_knows_is_refused(cell: Cell) -> None:
    known = cell("def train():\n    pass\n", is_known=False)
    with pytest.raises(ConfigError) as refused:
        source_of(known["train"], "train")
    assert str(refused.value) == (
        "weft.run cannot send 'train' to its workers: its source is not known.\n"
        "  Define it in a file or in a notebook's cell."
    )


def test_one_name_for_two_things_is_refused(tmp_path: Path, cell: Cell) -> None:
    first = cell("def helper():\n    return rate\n", rate=1)
    known = cell("def train():\n    return helper() + rate\n", helper=first["helper"], rate=2)
    with pytest.raises(ConfigError, match="'rate' is one thing for 'train' and another for a function"):
        write_script(known["train"], (), tmp_path)


@pytest.mark.parametrize("text", ["def train():\n    yield 1\n", "async def train():\n    pass\n"])
def test_what_runs_nothing_when_it_is_called_is_refused(text: str, tmp_path: Path, cell: Cell) -> None:
    with pytest.raises(ConfigError, match=r"'train' is a generator or a coroutine, of which a call runs nothing\.\n"):
        write_script(cell(text)["train"], (), tmp_path)


@pytest.mark.parametrize("target", [lambda: None, 3, len, Path.exists.__get__(Path())])
def test_what_is_neither_a_script_nor_a_function_is_refused(target: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"which is neither the path of a script nor a function\.\n"):
        write_script(target, (), tmp_path)
