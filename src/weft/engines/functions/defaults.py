"""The defaults of a function's parameters: their expressions in its source, and their values."""

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType

MISSING = object()


@dataclass(frozen=True)
class Default:
    """The default of one parameter: its expression in the source, and its value when the function was defined."""

    parameter: str
    written: ast.expr
    value: object

    def is_still_written(self, around: Mapping[str, object]) -> bool:
        """Whether the expression still gives this default: it is a lambda, or a name whose value is the same object."""
        return isinstance(self.written, ast.Lambda) or _found(self.written, around) is self.value


def defaults_in(source: str, value: FunctionType | type) -> Iterator[Default]:
    """The defaults of a function, of a named lambda or of a class's methods, as defined by `source`."""
    node = ast.parse(source).body[0]
    if isinstance(value, FunctionType):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            yield from _defaults_at(node.value.args, value)
        yield from _defaults_of(node, inspect.unwrap(value))
    elif isinstance(node, ast.ClassDef):
        for inner in node.body:
            member = vars(value).get(getattr(inner, "name", ""))
            method = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            if isinstance(method, FunctionType):
                yield from _defaults_of(inner, inspect.unwrap(method))


def _defaults_of(node: ast.stmt, function: FunctionType) -> Iterator[Default]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != function.__name__:
        return
    yield from _defaults_at(node.args, function)


def _defaults_at(written: ast.arguments, function: FunctionType) -> Iterator[Default]:
    names = [each.arg for each in (*written.posonlyargs, *written.args)]
    expressions = dict(zip(reversed(names), reversed(written.defaults), strict=False))
    for keyword, expression in zip(written.kwonlyargs, written.kw_defaults, strict=True):
        if expression is not None:
            expressions[keyword.arg] = expression
    values = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
    values.update(function.__kwdefaults__ or {})
    for name, expression in expressions.items():
        if name in values:
            yield Default(name, expression, values[name])


def _found(expression: ast.expr, around: Mapping[str, object]) -> object:
    """The current value of a name, or of an attribute of one; MISSING for other expressions."""
    if isinstance(expression, ast.Name):
        return around.get(expression.id, MISSING)
    if isinstance(expression, ast.Attribute):
        return getattr(_found(expression.value, around), expression.attr, MISSING)
    return MISSING


def replaced(source: str, changes: Sequence[tuple[ast.expr, str]]) -> str:
    """`source`, with each expression in `changes` replaced by its text."""
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, text in sorted(changes, key=lambda change: (change[0].lineno, change[0].col_offset), reverse=True):
        first = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        data = data[:first] + text.encode() + data[end:]
    return data.decode()
