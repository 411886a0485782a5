"""Finds attributes of imported modules that a notebook or main script has set, which a new process would not have.

Assignments are looked for in the text of the notebook or script (`mymod.RATE = 3`, `mymod.TABLE["a"] = 3`); the
attributes are sent with their current values. What calls have set (`mymod.configure()`,
`torch.set_default_dtype(...)`) is not found, and not sent.
"""

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType, ModuleType
from uuid import uuid4

HOME = uuid4().hex
"""Identifies this process and its forks, which have its state already."""


@dataclass(frozen=True)
class ModuleSetting:
    """A module's attribute that is assigned in the text of a notebook or script."""

    module: ModuleType
    name: str
    is_sure: bool
    """Whether the assignment is at top level, not in a function, which may not have been called."""

    @property
    def value(self) -> object:
        return getattr(self.module, self.name)

    @property
    def called(self) -> str:
        """The attribute as a user would write it: module.NAME."""
        return f"{self.module.__name__}.{self.name}"


def restore(home: str, module: str, name: str, value: object) -> None:
    """Set an attribute of a module as it was in the process `home`, unless this is that process."""
    if home != HOME:
        setattr(import_module(module), name, value)


def settings(namespaces: list[Mapping[str, object]]) -> list[ModuleSetting]:
    """The attributes of modules, other than Python's own, that notebooks or scripts with these namespaces have set."""
    found: dict[tuple[str, str], ModuleSetting] = {}
    for names in namespaces:
        for text in _texts(names):
            for setting in _settings_in(text, names):
                key = setting.module.__name__, setting.name
                if key not in found or setting.is_sure:
                    found[key] = setting
    return list(found.values())


def reached(module: ModuleType) -> set[str]:
    """The names of `module`, and of all modules that it refers to, directly or through others."""
    names, new = {module.__name__}, [module]
    while new:
        for value in list(vars(new.pop()).values()):
            known = value if issubclass(type(value), ModuleType) else None  # isinstance would load a lazy module
            if issubclass(type(value), FunctionType | type):
                known = sys.modules.get(str(value.__module__))
            if known is not None and known.__name__ not in names and not _is_pythons(known):
                names.add(known.__name__)
                new.append(known)
    return names


def _texts(names: Mapping[str, object]) -> list[str]:
    """A notebook's cells, which IPython keeps, or the text of a script."""
    cells = names.get("_ih")
    if isinstance(cells, list):
        return [cell for cell in cells if isinstance(cell, str)]
    file = names.get("__file__")
    return ["".join(linecache.getlines(file))] if isinstance(file, str) else []


def _settings_in(text: str, names: Mapping[str, object]) -> Iterator[ModuleSetting]:
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a cell that has never run
        return
    for target, is_sure in _targets(tree, is_sure=True):
        place: ast.expr = target
        while isinstance(place, ast.Attribute | ast.Subscript):
            owner = _module(place.value, names) if isinstance(place, ast.Attribute) else None
            if isinstance(place, ast.Attribute) and owner is not None:
                if hasattr(owner, place.attr) and not _is_pythons(owner):
                    yield ModuleSetting(owner, place.attr, is_sure)
                break
            place = place.value


def _targets(node: ast.AST, *, is_sure: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The targets of all assignments in a syntax tree, and whether each has surely been run."""
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield node, is_sure
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from _targets(child, is_sure=is_sure and not is_function)


def _module(place: ast.expr, names: Mapping[str, object]) -> ModuleType | None:
    """The module to which an expression refers; None if it is not a module."""
    found: object = None
    if isinstance(place, ast.Name):
        found = names.get(place.id)
    elif isinstance(place, ast.Attribute):
        owner = _module(place.value, names)
        found = None if owner is None else vars(owner).get(place.attr)
    return found if isinstance(found, ModuleType) else None


def _is_pythons(module: ModuleType) -> bool:
    """Whether a module belongs to Python's standard library; its state is not sent."""
    return module.__name__.partition(".")[0] in {*sys.stdlib_module_names, "__main__"}
