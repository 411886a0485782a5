"""The grammar of 'ssp(staleness=3)': a Python call with literal arguments, parsed and never evaluated."""

import ast
import keyword
import re
from dataclasses import dataclass, field

from weft.core.errors import ConfigError
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened

Value = object
CHARACTERS_MAX = 50_000
"""Of a strategy, topology or codec as it is written: a graph of some thousand edges is."""
WHOLE_END = 2**63
WORDS: dict[str, object] = {"none": None, "true": True, "false": False}
RESERVED = re.compile(rf"(=\s*)({'|'.join(word for word in keyword.kwlist if word.islower())})(?=\s*[,)])")
"""A bare word that Python keeps for itself, as in 'easgd(mode=async)'."""


@dataclass(frozen=True)
class Call:
    """A name with arguments; arguments are literals, bare words (strings) or calls."""

    name: str
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)


def parse(text: str) -> Call:
    """'ring', 'torus(2, 4)' or 'gossip(topology=torus(2, 4), order=step_first)' as a Call."""
    _check_length(text)
    try:
        tree = _tree(text.strip())
        value = _value(tree, text)
    except (SyntaxError, ValueError) as error:
        raise _refused(text, "it is not written like a call") from error
    except (RecursionError, MemoryError) as error:  # of Python's parser, or of those who walk through its tree
        raise _refused(text, "it is nested too deeply") from error
    if isinstance(value, Call):
        return value
    if isinstance(value, str) and isinstance(tree, ast.Name):
        return Call(value)
    raise _refused(text, "it does not begin with a name")


def parse_chain(text: str) -> tuple[Call, ...]:
    """'topk(0.01) | qsgd(levels=7)' as its calls, from left to right."""
    _check_length(text)
    try:
        tree = _tree(text.strip())
        links: list[ast.expr] = []
        while isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitOr):
            links.insert(0, tree.right)
            tree = tree.left
        return tuple(parse(ast.unparse(link)) for link in (tree, *links))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(
            f"'{_short(text)}' cannot be read: it is not written like calls with | between them.\n"
            "  Write e.g. 'onebit', 'topk(0.01)' or 'topk(0.01) | qsgd(levels=7)'."
        ) from error


def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return ast.parse(RESERVED.sub(r"\1'\2'", text), mode="eval").body


def _value(node: ast.expr, text: str) -> Value:
    if isinstance(node, ast.Name):
        return WORDS.get(node.id.lower(), node.id)
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or any(given.arg is None for given in node.keywords):
            raise _refused(text, "only plain names can be called")
        names = [str(given.arg) for given in node.keywords]
        if len(set(names)) < len(names):
            raise _refused(text, f"'{max(names, key=names.count)}' is given more than once")
        args = tuple(_value(arg, text) for arg in node.args)
        return Call(node.func.id, args, {n: _value(k.value, text) for n, k in zip(names, node.keywords, strict=True)})
    try:
        value: Value = ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise _refused(text, f"'{_short(ast.unparse(node))}' is not a literal") from error
    for each in ast.walk(node):
        number = each.value if isinstance(each, ast.Constant) else 0
        if isinstance(number, int | float) and not abs(number) < WHOLE_END:
            raise _refused(text, "it has a number that is not below 2**63")
    return value


def _check_length(text: str) -> None:
    if len(text) > CHARACTERS_MAX:
        raise _refused(text, f"it has {len(text):,} characters, but at most {CHARACTERS_MAX:,}")


def _short(text: str) -> str:
    return shortened(text, WORD_CHARACTERS_MAX)


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"'{_short(text)}' cannot be read: {why}.\n"
        "  Write a name, or a name with arguments: 'ssp', 'ssp(staleness=3)', 'gossip(topology=torus(2, 4))'."
    )
