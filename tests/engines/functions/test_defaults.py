"""The defaults of arguments: found where the source writes them."""

import ast
import inspect
import operator
from typing import Any

from weft.engines.functions.defaults import defaults_in, replaced

LR = 0.1


def train(first: int, lr: float = LR, *, words: str = "ä", op: Any = operator.add) -> None:
    """Only its head matters."""


def test_every_default_is_found_with_its_expression_and_its_value() -> None:
    found = list(defaults_in(inspect.getsource(train), train))  # type: ignore[arg-type]
    told = [(each.parameter, ast.unparse(each.written), each.value) for each in found]
    assert told == [("lr", "LR", 0.1), ("words", "'ä'", "ä"), ("op", "operator.add", operator.add)]
    assert [each.is_still_written({"LR": 0.5, "operator": operator}) for each in found] == [False, False, True]


def test_expressions_are_replaced_where_they_stand_whatever_the_letters_before_them() -> None:
    source = 'def train(first, lr=LR, *, words="ä", op=operator.add): pass\n'
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    rate, op = node.args.defaults[0], node.args.kw_defaults[1]
    assert op is not None
    assert replaced(source, [(rate, "0.1"), (op, "plus")]) == 'def train(first, lr=0.1, *, words="ä", op=plus): pass\n'
