"""The checks by the names under which strategies promise them: 'staleness.stays_within'.

A check is a public function of a module in checks/ that takes the evidence first and yields violations.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_type_hints

from weft.core.errors import ConfigError, did_you_mean
from weft.core.invariants import Invariant
from weft.fuzz import checks
from weft.fuzz.evidence import Evidence, Violation

Check = Callable[[Evidence], Iterator[Violation]]


def _is_check(name: str, value: object) -> bool:
    if name.startswith("_") or not inspect.isfunction(value):
        return False
    hints = list(get_type_hints(value).values())
    return hints[:1] == [Evidence] and hints[-1] == Iterator[Violation]


CHECKS: dict[str, Callable[..., Iterator[Violation]]] = {
    f"{module.name}.{name}": value
    for module in iter_modules(checks.__path__)
    for name, value in vars(import_module(f"{checks.__name__}.{module.name}")).items()
    if _is_check(name, value)
}


def check_of(invariant: Invariant) -> Check:
    """The check that audits an invariant, with all that it is told; ConfigError when there is none that takes it."""
    check, told = CHECKS.get(invariant.check), dict[str, Any](invariant.told)
    if check is None:
        hint = did_you_mean(invariant.check, CHECKS)
        raise ConfigError(
            f"a strategy promises '{invariant.check}', but src/weft/fuzz/checks/ has no such check.\n  {hint}"
        )
    try:
        inspect.signature(check).bind(None, **told)
    except TypeError as error:
        wanted = ", ".join(list(inspect.signature(check).parameters)[1:]) or "nothing"
        raise ConfigError(
            f"a strategy promises '{invariant.check}', but its check cannot be told that: {error}.\n"
            f"  It is told: {wanted}."
        ) from error
    return partial(check, **told)
