"""A verb that takes a script: options that are not Weft's are told to go after --, or what they are called now."""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand

from weft.config.options import LEAVES
from weft.core.errors import ConfigError

END = "--"
"""After it, everything is the script's."""
SUFFIX = ".py"
MOVED = {
    "--collective": "reduce.collective",
    "--device": "worker.device",
    "--hiccups": "worker.hiccups",
    "--global-batch": "data.global_batch",
    "--check-replay": "run.check_replay",
    "--trace": "write.trace",
    "--log": "write.log",
    "--tensorboard": "write.tensorboard",
    "--address": "ray.address",
    "--resources-per-worker": "ray.resources",
}
"""What were options of their own."""
CLOSE = 0.8
"""How alike an option must be to one of Weft's to be taken for a slip of the pen; --epochs is not --steps."""


class ScriptCommand(TyperCommand):
    """Refuses options that it does not know, with the command that was meant, if there is a script to take them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = {
            name: bool(param.is_flag) for param in self.params if hasattr(param, "is_flag") for name in _names(param)
        }
        flags.update(dict.fromkeys(ctx.help_option_names, True))
        theirs, others = _foreign(args, flags)
        script = _script(args, theirs, others)
        verb = f"weft {self.name}"
        for name in (_name(args[place]) for place in theirs):
            _check_moved(name, verb)
        if theirs and script is not None:
            meant = shlex.join([*verb.split(), *_corrected(args, theirs, script)])
            raise ConfigError(
                f"'{_name(args[theirs[0]])}' is not an option of {verb}{_guess(_name(args[theirs[0]]), flags)}.\n"
                f"  Put the script's own arguments after --: {meant}"
            )
        return super().parse_args(ctx, args)


def _check_moved(name: str, verb: str) -> None:
    """Say what an option is called now, if a verb had it."""
    key = MOVED.get(name)
    if key is not None and verb in LEAVES[key].takers:
        example = shlex.quote(f"{key}={LEAVES[key].example}")
        raise ConfigError(f"{name} is now --set {example}.\n  If the script has an option {name}, put it after --.")


def _names(param: Any) -> list[str]:
    return [*param.opts, *param.secondary_opts]


def _name(token: str) -> str:
    return token.partition("=")[0]


def _foreign(args: Sequence[str], flags: dict[str, bool]) -> tuple[list[int], list[int]]:
    """The places of options that are not in `flags`, which says of each whether it has no value; and those of words
    that are neither an option nor the value of one of Weft's."""
    options: list[int] = []
    words: list[int] = []
    takes_next = False
    for place, token in enumerate(args):
        if takes_next:
            takes_next = False
        elif token == END:
            break
        elif not token.startswith("-") or token == "-":
            words.append(place)
        elif (name := _known(token, flags)) is not None:
            takes_next = not flags[name] and token == name
        else:
            options.append(place)
    return options, words


def _script(args: Sequence[str], theirs: Sequence[int], words: Sequence[int]) -> int | None:
    """The place of the script: the first word unless it may be the value of an option that Weft does not know."""
    sure = [place for place in words if place - 1 not in theirs or "=" in args[place - 1]]
    named = [place for place in words if args[place].endswith(SUFFIX)]
    return min([*sure[:1], *named[:1]], default=None)


def _known(token: str, flags: dict[str, bool]) -> str | None:
    """The option that a token gives: -n, -n4, --workers or --workers=4."""
    name = _name(token) if token.startswith(END) else token[:2]
    return name if name in flags else None


def _guess(name: str, known: dict[str, bool]) -> str:
    close = get_close_matches(name, known, 1, cutoff=CLOSE)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _corrected(args: Sequence[str], theirs: Sequence[int], script: int) -> list[str]:
    """The same with the script's options, and what stands behind each, after --."""
    stop = args.index(END) if END in args else len(args)
    moved = set(theirs)
    for place in theirs:
        if "=" not in args[place] and place + 1 not in (script, stop) and not args[place + 1].startswith("-"):
            moved.add(place + 1)
    kept = [token for place, token in enumerate(args[:stop]) if place not in moved]
    return [*kept, END, *(args[place] for place in sorted(moved)), *args[stop + 1 :]]
