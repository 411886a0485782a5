"""`weft.join` and `weft.once`, by which a script takes part in a run."""

from collections.abc import Callable, Mapping
from typing import Any

from weft.adapters.alone import Alone
from weft.adapters.once_key import once_key
from weft.core.coding import Coding
from weft.core.errors import ConfigError
from weft.core.rules import Rule
from weft.core.seat import find_seat
from weft.core.strategy import Strategy


def join(
    model: Any = None,
    optimizer: Any = None,
    *,
    arrays: Mapping[str, Any] | None = None,
    apply: Callable[..., None] | None = None,
    strategy: Strategy | str | None = None,
    compress: Coding | str | None = None,
) -> Any:
    """Take part in training: `join(model, optimizer)` for torch, `join(arrays=..., optimizer=...)` for numpy.

    Several optimizers of one model: `join(model, [opt_a, opt_b])`; several models: one join for each, before training.
    Returns the worker. A script that was started by plain `python` is a single worker, and its loop a plain loop.
    `strategy` and `compress` are used unless the command line or the configuration names others.
    """
    if not isinstance(strategy, Strategy | str | None):
        raise ConfigError(
            f"weft.join was given strategy={strategy!r}, which is neither a name nor a strategy.\n"
            "  Use strategy='gossip' or strategy=weft.Gossip()."
        )
    if not isinstance(compress, Coding | str | None):
        raise ConfigError(
            f"weft.join was given compress={compress!r}, which is neither a name nor a codec.\n"
            "  Use e.g. compress='topk(0.01)' or compress=weft.TopK(0.01)."
        )
    words = None if compress is None else str(compress)
    seat = find_seat() or Alone()
    if arrays is not None:
        if model is not None or (optimizer is not None and not isinstance(optimizer, Rule)):
            raise ConfigError(
                "weft.join was given arrays together with a model or a framework's optimizer.\n"
                "  Use weft.join(arrays=..., optimizer=weft.SGD(lr=0.1)), or weft.join(model, optimizer)."
            )
        from weft.adapters.arrays import join_arrays

        return join_arrays(seat, arrays, optimizer, apply, strategy, words)
    if model is None or optimizer is None:
        raise ConfigError(
            "weft.join needs a model and its optimizer, or arrays.\n"
            "  Use weft.join(model, optimizer), or weft.join(arrays=..., optimizer=weft.SGD(lr=0.1))."
        )
    try:
        from weft.adapters.torch.join import join_torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigError(
            "weft.join(model, optimizer) is for torch, which is not installed.\n"
            "  Install it: pip install 'weft[torch]'. For arrays: weft.join(arrays=..., optimizer=weft.SGD(lr=0.1))."
        ) from error

    return join_torch(seat, model, optimizer, strategy, words)


def once(load: Callable[..., Any], *args: Any) -> Any:
    """The value of `load(*args)`, loaded once for all workers of a host. Do not write to it."""
    seat = find_seat()
    if seat is None:
        return load(*args)
    return seat.once(once_key(load, args), lambda: load(*args))
