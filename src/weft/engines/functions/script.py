"""Makes a script of a function: its source, and what it uses of the module or notebook around it.

Workers are new processes. A fork of the caller would have everything, but torch refuses to train in the fork of a
process that has trained, and threads of its libraries would be missing; so a function is sent as text. What it uses by
name is sent, too: modules and their functions as imports; functions and classes of the notebook or main script as
source, with the defaults of their parameters as they were when they were defined; plain data as literals; arrays and
tensors as files; and what the notebook has assigned to attributes of modules. Anything else is refused by name.
"""

import __future__

import ast
import builtins
import dis
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from weft.core.errors import ConfigError
from weft.engines.functions.defaults import Default, defaults_in, replaced
from weft.engines.functions.lambdas import is_lambda, lambda_source
from weft.engines.functions.state import HOME, ModuleSetting, reached, settings

DEFAULT = "weft_default_"
"""Prefix of the names of pieces that are defaults of parameters."""
SETTING = "weft_setting_"
"""Prefix of the names of pieces that are attributes of modules."""
LAZY_ANNOTATIONS = __future__.annotations.compiler_flag
LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
SENT = "modules, functions, classes, numbers, texts, lists, dicts, arrays and tensors can be sent"


def write_script(function: Callable[..., Any], arguments: Sequence[object], folder: Path) -> Path:
    """Write a script to `folder` that calls `function` with `arguments`; what cannot be sent is refused by name."""
    check_function(function)
    assert isinstance(function, FunctionType)
    name = function.__name__
    call = _literal(tuple(arguments))
    if call is None:
        raise ConfigError(
            f"weft.run was given arguments for '{name}' that are not plain data.\n"
            "  Give numbers, texts, lists and dicts, and make the rest inside of the function."
        )
    mains = [vars(sys.modules["__main__"]), function.__globals__]
    pieces = Pieces(folder, settings([names for names in mains if names.get("__name__") == "__main__"]))
    pieces.need(name, function, name)
    found = [os.path.abspath(entry) for entry in sys.path]
    future = "from __future__ import annotations\n" if pieces.has_lazy_annotations else ""
    head = f"{future}import sys\n\nsys.path[1:1] = [entry for entry in {found!r} if entry not in sys.path]\n"
    path = folder / f"weft_function_{name}.py"  # its folder comes first in sys.path: the name must not hide a module
    path.write_text("\n".join([head, *pieces.texts, f"{name}(*{call})\n"]), encoding="utf-8")
    return path


def check_function(function: Callable[..., Any]) -> None:
    """Raise ConfigError for callables without source, and for those that would do nothing when called."""
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        raise ConfigError(
            f"weft.run was given {function!r}, which is neither the path of a script nor a function.\n"
            "  Define a function with def, and give that."
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigError(
            f"'{function.__name__}' is a generator or a coroutine, of which a call runs nothing.\n"
            "  Define it with def, and without yield."
        )


class Pieces:
    """The texts of which a script is made, each after those that it needs."""

    def __init__(self, folder: Path, settings: Sequence[ModuleSetting] = ()) -> None:
        self._folder = folder
        self._settings = list(settings)
        """Assignments to attributes of modules that no piece has needed yet."""
        self._values: dict[str, object] = {}
        self.texts: list[str] = []
        self.has_lazy_annotations = False
        """Whether some were defined under `from __future__ import annotations`, and may not run without it."""

    def need(self, name: str, value: object, user: str) -> None:
        """Add the pieces by which `name`, which `user` uses, is `value` in the script."""
        if name in self._values:
            if self._values[name] is not value:
                raise ConfigError(
                    f"'{name}' is one thing for '{user}' and another for a function that it is used with.\n"
                    "  Give one of them another name."
                )
            return
        self._values[name] = value
        self._append(name, value, f"'{name}'", user)

    def _append(self, name: str, value: object, told: str, user: str) -> None:
        self._restore(value, user)
        text = self._text(name, value)
        if text is None:
            raise ConfigError(
                f"weft.run cannot send {told} to its workers, which '{user}' uses: it is a {_kind(value)}.\n"
                f"  Make it inside of '{user}', or in a function that it calls; {SENT}."
            )
        self.texts.append(text)

    def _restore(self, value: object, user: str) -> None:
        """Add assignments to attributes of the modules that `value` needs, before any piece that needs them."""
        module = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        if not self._settings or module is None or module.__name__ == "__main__":
            return
        names = reached(module)
        concerned = [setting for setting in self._settings if setting.module.__name__ in names]
        self._settings = [setting for setting in self._settings if setting not in concerned]
        for setting in concerned:
            name = f"{SETTING}{len(self.texts)}_{setting.name}"
            try:
                self._append(name, setting.value, f"what was set as '{setting.called}'", user)
            except ConfigError:
                if setting.is_sure:
                    raise
                continue
            restore = "__import__('weft.engines.functions.state', fromlist=['restore']).restore"
            self.texts.append(f"{restore}({HOME!r}, {setting.module.__name__!r}, {setting.name!r}, {name})")

    def _text(self, name: str, value: object) -> str | None:
        if isinstance(value, ModuleType):
            return None if value.__name__ == "__main__" else f"import {value.__name__} as {name}"
        if isinstance(value, FunctionType | type) or callable(value):
            imported = _imported(name, value)
            if imported is not None or not isinstance(value, FunctionType | type):
                return imported
            return self._definition(name, value)
        text = _literal(value)
        return self._array(name, value) if text is None else f"{name} = {text}"

    def _definition(self, name: str, value: FunctionType | type) -> str:
        """The source of a function or a class of the main script or notebook, after all that it uses."""
        around = _around(value)
        called = name if is_lambda(value) else value.__name__
        source = self._with_defaults(source_of(value, called), value, called, around)
        lazy = _lazy_annotations(value)
        self.has_lazy_annotations |= bool(lazy)
        code = compile(source, f"<{name}>", "exec", lazy, dont_inherit=True)
        at_once = _names_at_once(code, value)
        missing = next((used for used in at_once if used not in around and not used.startswith(DEFAULT)), None)
        if missing is not None:
            raise ConfigError(
                f"weft.run cannot send '{called}' to its workers: its definition uses '{missing}', which its "
                f"module or notebook does not know.\n  Define '{missing}' outside of any function."
            )
        for used in dict.fromkeys(_names(code)):
            if used in around:
                self.need(used, around[used], called)
        return source if called == name else f"{source}\n{name} = {called}"

    def _with_defaults(self, source: str, value: FunctionType | type, called: str, around: Mapping[str, object]) -> str:
        """The source with the functions' actual defaults, where its expressions would give something else by now."""
        changes = [
            (default.written, self._default(default, called))
            for default in defaults_in(source, value)
            if not default.is_still_written(around)
        ]
        return replaced(source, changes)

    def _default(self, default: Default, user: str) -> str:
        """The source text of a default's value in the script that is written; `user` names the function, for errors."""
        text = _literal(default.value)
        if text is not None:
            return text
        name = f"{DEFAULT}{len(self.texts)}_{default.parameter}"
        self._append(name, default.value, f"the default of '{default.parameter}'", user)
        return name

    def _array(self, name: str, value: object) -> str | None:
        """The text that loads an array or a tensor from a .npy file, which is written here; None for other values."""
        is_tensor = type(value).__module__ == "torch" and type(value).__name__ == "Tensor"
        try:
            array = value.detach().cpu().numpy() if is_tensor else value  # type: ignore[attr-defined]
        except TypeError:  # numpy has no such type
            return None
        if type(array) is not np.ndarray or array.dtype.hasobject:
            return None
        path = self._folder / f"{name}.npy"
        np.save(path, array, allow_pickle=False)
        load = f"__import__('numpy').load({str(path)!r}, allow_pickle=False)"
        return f"{name} = __import__('torch').from_numpy({load})" if is_tensor else f"{name} = {load}"


def source_of(value: FunctionType | type, called: str) -> str:
    """The source that defines a function or class; raises ConfigError if it is not known."""
    try:
        if isinstance(value, FunctionType) and is_lambda(value):
            return _lambda_definition(value, called)
        text = inspect.getsource(value) if isinstance(value, FunctionType) else _class_source(value)
    except (OSError, TypeError):
        text = None
    if text is None:
        raise ConfigError(
            f"weft.run cannot send '{called}' to its workers: its source is not known.\n"
            "  Define it in a file or in a notebook's cell."
        )
    return dedent(text)


def _lambda_definition(value: FunctionType, called: str) -> str:
    text = lambda_source(value)
    if text is None:
        raise ConfigError(
            f"weft.run cannot send '{called}' to its workers: it is one of several lambdas in a line.\n"
            "  Define it with def, or in a line of its own."
        )
    return f"{called} = ({text})\n"


def _class_source(value: type) -> str | None:
    """The source of a class, found by one of its methods: for notebooks, Python knows the source of functions only."""
    for code in (method.__code__ for method in _methods(value)):
        lines = linecache.getlines(code.co_filename)
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ClassDef) and node.name == value.__name__:
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if first <= code.co_firstlineno <= (node.end_lineno or 0):
                    return "".join(lines[first - 1 : node.end_lineno])
    return None


def _methods(value: type) -> list[FunctionType]:
    return [member for member in vars(value).values() if isinstance(member, FunctionType)]


def _around(value: FunctionType | type) -> Mapping[str, object]:
    """The names that a function or class can use: of its module, and of the function in which it was defined."""
    if isinstance(value, type):
        return {name: found for method in _methods(value) for name, found in _around(method).items()}
    inner = inspect.unwrap(value)
    closed = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
    return {**inner.__globals__, **{name: cell.cell_contents for name, cell in closed if name != "__class__"}}


def _lazy_annotations(value: FunctionType | type) -> int:
    """The flag of `from __future__ import annotations`, if a function or a class was defined under it."""
    functions = [inspect.unwrap(value)] if isinstance(value, FunctionType) else _methods(value)
    return LAZY_ANNOTATIONS if any(each.__code__.co_flags & LAZY_ANNOTATIONS for each in functions) else 0


def _names_at_once(code: CodeType, value: FunctionType | type) -> list[str]:
    """The names without which a definition fails: bases, decorators, and what the body of a class looks up."""
    names = _loaded(code)
    if isinstance(value, type):
        bodies = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == value.__name__]
        for body in bodies:
            own = {each.argval for each in dis.get_instructions(body) if each.opname == "STORE_NAME"}
            names += [name for name in _loaded(body) if name not in own and not name.startswith("__")]
    return names


def _loaded(code: CodeType) -> list[str]:
    names = [each.argval for each in dis.get_instructions(code) if each.opname in LOADS]
    return [name for name in names if not hasattr(builtins, name)]


def _names(code: CodeType) -> list[str]:
    """Every global name that a piece of code and the functions in it look up, except builtins."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return [*_loaded(code), *(name for each in inner for name in _names(each))]


def _imported(name: str, value: object) -> str | None:
    """The import statement for a function or a class; None if it cannot be imported, like those of the main script."""
    module, called = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(called, str) or module == "__main__" or module not in sys.modules:
        return None
    if "." in called or getattr(sys.modules[module], called, None) is not value:
        return None
    return f"from {module} import {called} as {name}"


def _literal(value: object) -> str | None:
    """Plain data as a Python expression; None for other values."""
    if value is None or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is float:
        return repr(value) if isfinite(value) else f"float('{value!r}')"
    if isinstance(value, Path):
        return f"__import__('pathlib').Path({str(value)!r})"
    if type(value) is dict:
        pairs = [(_literal(key), _literal(each)) for key, each in value.items()]
        return None if any(None in pair for pair in pairs) else f"{{{', '.join(f'{k}: {v}' for k, v in pairs)}}}"
    if type(value) in (list, tuple, set, frozenset):
        inner = [_literal(each) for each in value]  # type: ignore[attr-defined]
        return None if None in inner else f"{type(value).__name__}([{', '.join(map(str, inner))}])"
    return None


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
