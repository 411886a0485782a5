"""Finds the source of a lambda: the expression alone, wherever it is in its line."""

import ast
import inspect
from types import FunctionType


def is_lambda(value: object) -> bool:
    """Whether a function was written as a lambda, whatever name it has now."""
    return isinstance(value, FunctionType) and value.__code__.co_name == "<lambda>"


def lambda_source(value: FunctionType) -> str | None:
    """The text of a lambda; None if its line has several different ones, which cannot be told apart.

    Raises OSError if the source is not known.
    """
    lines, _ = inspect.findsource(value)
    text = "".join(lines)
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError as error:
        raise OSError(f"the source around a lambda cannot be read: {error}") from error
    first = value.__code__.co_firstlineno
    there = [node for node in nodes if isinstance(node, ast.Lambda) and node.lineno == first]
    if not there:
        raise OSError("there is no lambda where it is said to be")
    if len({ast.dump(node) for node in there}) > 1:
        return None
    return ast.get_source_segment(text, there[0])
