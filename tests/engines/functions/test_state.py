"""What a notebook has set of modules is found in its text."""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from weft.engines.functions.state import HOME, reached, restore, settings

CELLS = [
    "state_of.RATE = 3\nstate_of.RATE += 1\n",
    "%magic\n",
    "for state_of.deep.SIZE in range(3): state_of.deep.TABLE['a']['b'] = 1\n",
    "state_of.model.rate = 1\nstate_of.gone = 1\nos.environ['A'] = 'b'\nown.x = 1\nlocal = state_of.OTHER\n",
    "def later():\n    state_of.LATE = state_of.RATE = 2\n",
]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What a notebook knows that has imported a module, which knows another one."""
    module, deep = ModuleType("state_of"), ModuleType("deep")
    vars(module).update(RATE=4, LATE=1, OTHER=1, model=object(), deep=deep)
    vars(deep).update(SIZE=2, TABLE={"a": {"b": 1}})
    monkeypatch.setitem(sys.modules, "state_of", module)
    return {"state_of": module, "os": os, "own": object()}


def test_assignments_are_found_by_module_and_attribute(names: dict[str, object]) -> None:
    found = settings([{**names, "_ih": CELLS}])
    assert [(each.called, each.is_sure) for each in found] == [
        ("state_of.RATE", True),
        ("deep.SIZE", True),
        ("deep.TABLE", True),
        ("state_of.model", True),
        ("state_of.LATE", False),
    ]
    assert found[0].value == 4


def test_those_of_a_script_are_found_in_its_file(names: dict[str, object], tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("import state_of\nif True:\n    state_of.RATE = 4\n")
    assert [each.called for each in settings([{**names, "__file__": str(script)}])] == ["state_of.RATE"]
    assert settings([names]) == []


def test_modules_are_reached_by_what_other_modules_know(names: dict[str, object]) -> None:
    module = names["state_of"]
    assert isinstance(module, ModuleType)
    vars(module).update(os=os, itself=module, raises=pytest.raises)
    assert {"state_of", "deep", pytest.raises.__module__} <= reached(module)
    assert "os" not in reached(module)


def test_only_another_process_is_told_what_was_set(names: dict[str, object]) -> None:
    module = names["state_of"]
    restore(HOME, "state_of", "RATE", 5)
    assert vars(module)["RATE"] == 4
    restore("elsewhere", "state_of", "RATE", 5)
    assert vars(module)["RATE"] == 5
