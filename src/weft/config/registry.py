"""The registry of names: what strategies, topologies, collectives and rules are called."""

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from weft import codecs, collectives, strategies, topologies
from weft.codecs.codec import Codec
from weft.config.grammar import Call, parse
from weft.core import rules
from weft.core.errors import ConfigError, did_you_mean
from weft.core.schedule import Flat, Scheduler
from weft.core.strategy import Strategy
from weft.topologies import Topology

STRATEGIES: dict[str, type[Strategy]] = {
    cls.entry.name: cls for cls in (getattr(strategies, name) for name in strategies.__all__)
}

TOPOLOGIES: dict[str, type[Topology]] = {
    "complete": topologies.Complete,
    "ring": topologies.Ring,
    "torus": topologies.Torus,
    "mesh": topologies.Mesh,
    "hypercube": topologies.Hypercube,
    "exponential": topologies.Exponential,
    "tree": topologies.Tree,
    "star": topologies.Star,
    "hierarchy": topologies.Hierarchy,
    "random_regular": topologies.RandomRegular,
    "custom": topologies.Custom,
}

RULES: dict[str, type[rules.Rule]] = {
    "sgd": rules.SGD,
    "momentum": rules.Momentum,
    "adagrad": rules.AdaGrad,
    "adam": rules.Adam,
}

COLLECTIVES: dict[str, Scheduler] = {
    "ring": Flat(collectives.ring),
    "tree": Flat(collectives.tree),
    "butterfly": Flat(collectives.butterfly),
    "halving_doubling": Flat(collectives.halving_doubling),
    "hierarchical": collectives.hierarchical,
    "partitioned_linear": Flat(collectives.partitioned_linear),
}

CODECS: dict[str, type[Codec]] = {
    "fp16": codecs.FP16,
    "bf16": codecs.BF16,
    "fp8": codecs.FP8,
    "int8": codecs.Int8,
    "qsgd": codecs.QSGD,
    "terngrad": codecs.TernGrad,
    "onebit": codecs.OneBit,
    "signsgd": codecs.SignSGD,
    "topk": codecs.TopK,
    "randomk": codecs.RandomK,
    "threshold": codecs.Threshold,
    "dgc": codecs.DGC,
    "powersgd": codecs.PowerSGD,
    "factors": codecs.Factors,
}

ALL = "all"
"""Stands for every strategy."""

AUTO = "auto"
"""Stands for the cheapest collective, which is known when the model is."""


def strategy(text: str, collective: str | None = None) -> Strategy:
    """The strategy that a string names, over a lowered collective if one is named."""
    built = build("strategy", parse(text), STRATEGIES)
    assert isinstance(built, Strategy)
    return built if collective in (None, AUTO) else lowered(built, collective)


def lowered(strategy: Strategy, collective: str) -> Strategy:
    """`strategy`, with every Reduce spoken in the messages of the named collective."""
    if collective not in COLLECTIVES:
        hint = did_you_mean(collective, [*COLLECTIVES, AUTO])
        raise ConfigError(f"collective '{collective}' is not known.\n  {hint}")
    return collectives.Lowered(strategy, collective, COLLECTIVES[collective])


def in_words(collective: str) -> str:
    """What a collective does: the sentence with which its file opens."""
    scheduler = COLLECTIVES[collective]
    module = inspect.getmodule(scheduler.schedule if isinstance(scheduler, Flat) else scheduler)
    return (inspect.getdoc(module) or collective).splitlines()[0].partition(": ")[2]


Objection = Callable[[Strategy, str], None]
"""Raises ConfigError when something else that was asked for does not go with a strategy of this name."""


def both(*objections: Objection | None) -> Objection:
    """All that is to be said against a strategy, the first first."""

    def object_to(strategy: Strategy, name: str) -> None:
        for objection in objections:
            if objection is not None:
                objection(strategy, name)

    return object_to


def expanded(
    strategies: tuple[str, ...] | None, num_workers: int, num_hosts: int = 1, objection: Objection | None = None
) -> tuple[str | None, ...]:
    """'all' stands for every strategy for so many workers, by its name; nothing leaves the choice to the script."""
    if strategies is None:
        return (None,)
    refused = left_out(strategies, num_workers, num_hosts, objection)
    fitting = [name for name in STRATEGIES if name not in refused]
    return tuple(name for text in strategies for name in (fitting if text == ALL else (text,)))


def left_out(
    strategies: tuple[str, ...] | None, num_workers: int, num_hosts: int = 1, objection: Objection | None = None
) -> dict[str, str]:
    """The strategies that 'all' does not stand for here, if it was said, and why."""
    asked = STRATEGIES if strategies is not None and ALL in strategies else {}
    refused = {name: _refusal(name, cls(), num_workers, num_hosts, objection) for name, cls in asked.items()}
    return {name: why for name, why in refused.items() if why}


def _refusal(name: str, strategy: Strategy, num_workers: int, num_hosts: int, objection: Objection | None) -> str:
    try:
        strategy.check(num_workers, num_hosts)
        if objection is not None:
            objection(strategy, name)
    except ConfigError as error:
        return str(error)
    return ""


def is_only_of_all(text: str | None, strategies: tuple[str, ...] | None) -> bool:
    """Nobody asked for it by its name: it may be left out if the script is not for it."""
    return strategies is not None and text not in strategies


def topology(text: str) -> Topology:
    """The topology that a string names."""
    built = build("topology", parse(text), TOPOLOGIES)
    assert isinstance(built, Topology)
    return built


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """The parameters of a registered class, by name."""
    return dict(inspect.signature(cls).parameters)


def default_text(cls: type, name: str) -> str:
    """A parameter's default as a user would write it."""
    if not is_dataclass(cls):
        return ""
    for field in fields(cls):
        if field.name == name:
            value = field.default if field.default is not MISSING else None
            if field.default_factory is not MISSING:
                value = field.default_factory()
            return spelled(value)
    return ""


def spelled(value: object) -> str:
    """A value in the grammar's own spelling."""
    if isinstance(value, Topology):
        return str(value)
    if isinstance(value, codecs.Chain):
        return f"{spelled(value.first)} | {spelled(value.second)}"
    for names in (STRATEGIES, TOPOLOGIES, RULES, CODECS):
        for name, cls in names.items():
            if type(value) is cls:
                changed = [
                    f"{field.name}={spelled(getattr(value, field.name))}"
                    for field in fields(cls)
                    if field.init and default_text(cls, field.name) != spelled(getattr(value, field.name))
                ]
                return f"{name}({', '.join(changed)})" if changed else name
    return value if isinstance(value, str) else repr(value)


def build(what: str, call: Call, known: Mapping[str, type]) -> Any:
    """What a call names, with its arguments checked."""
    cls = known.get(call.name)
    if cls is None:
        raise ConfigError(f"{what} '{call.name}' is not known.\n  {did_you_mean(call.name, known)}")
    names = parameters(cls)
    for name in call.kwargs:
        if name not in names:
            hint = did_you_mean(name, names) if names else "It has none."
            raise ConfigError(f"{what} '{call.name}' has no parameter '{name}'.\n  {hint}")
    try:
        bound = inspect.signature(cls).bind(*call.args, **call.kwargs)
    except TypeError as error:
        raise ConfigError(
            f"{what} '{call.name}' cannot take these arguments: {error}.\n"
            f"  Its parameters are: {', '.join(names) or 'none'}."
        ) from error
    hints = get_type_hints(cls)
    for name, value in bound.arguments.items():
        bound.arguments[name] = _converted(f"{call.name}({name}=...)", value, hints.get(name, object))
    return cls(*bound.args, **bound.kwargs)


def _converted(where: str, value: object, hint: Any) -> object:
    """Turn a word or call into the topology or rule that the parameter wants; check plain types."""
    wanted = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for base, what, known in ((Topology, "topology", TOPOLOGIES), (rules.Rule, "rule", RULES)):
        if base in wanted and not (value is None and type(None) in wanted):
            if not isinstance(value, str | Call):
                raise ConfigError(f"{where} got '{value}', but wants a {what}.\n  Known: {', '.join(known)}.")
            return build(what, value if isinstance(value, Call) else Call(value), known)
    plain = tuple(kind for kind in wanted if kind in (int, float, str, bool, type(None)))
    if len(plain) < len(wanted) or not plain:
        return value
    if float in plain and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, plain) or (isinstance(value, bool) and bool not in plain):
        expected = " or ".join("none" if kind is type(None) else kind.__name__ for kind in plain)
        raise ConfigError(f"{where} got '{value}', but wants {expected}.\n  Change it to a value of that type.")
    return value
