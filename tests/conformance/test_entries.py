"""A method is one file and its line in the list: every registered strategy says itself what it is called."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft import strategies
from weft.config.registry import STRATEGIES

SRC = Path(weft.__file__).parent
FOLLOWING = (SRC / "__init__.py", *sorted((SRC / "config").rglob("*.py")), *sorted((SRC / "fuzz").rglob("*.py")))
"""What follows the list of strategies, and what they declare."""


def named_in(path: Path) -> Iterator[str]:
    """Strategies that a file names by hand: by class, by name, or by a call in a string."""
    classes = set(strategies.__all__)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition("(")[0]
            yield from [name] if name in STRATEGIES or name in classes else []
        elif isinstance(node, ast.Name | ast.Attribute | ast.alias):
            found = {getattr(node, field, "") for field in ("id", "attr", "name")}
            yield from found & classes


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_declares_its_own_entry(name: str) -> None:
    cls = STRATEGIES[name]
    assert "entry" in vars(cls), f"{cls.__name__} would stand under the name of what it is built on"
    assert cls.entry.name == name
    assert re.fullmatch("[a-z][a-z_]*", name)
    for text in cls.entry[1:]:
        assert text
        assert not set("|\n") & set(text), "it stands in a table"
        assert not text.endswith(".")


def test_no_two_strategies_have_the_same_name() -> None:
    assert len(STRATEGIES) == len(strategies.__all__) == len(set(strategies.__all__))


def test_every_file_of_a_method_is_listed() -> None:
    files = {path.stem for path in (SRC / "strategies").glob("*.py")} - {"__init__"}
    assert {cls.__module__.rpartition(".")[2] for cls in STRATEGIES.values()} == files


@pytest.mark.parametrize("name", strategies.__all__)
def test_weft_exports_every_strategy(name: str) -> None:
    assert getattr(weft, name) is getattr(strategies, name)
    assert weft.__all__.count(name) == 1


def test_no_list_but_that_of_the_strategies_names_one() -> None:
    assert {path.relative_to(SRC).as_posix(): names for path in FOLLOWING if (names := list(named_in(path)))} == {}
    assert set(named_in(SRC / "strategies" / "__init__.py")) == set(strategies.__all__)
