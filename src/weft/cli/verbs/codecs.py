"""weft codecs: all codecs, what they may carry, and how small they make a million numbers."""

import inspect
from collections.abc import Sequence

from rich.table import Table

from weft.cli.show.listing import NARROW, show_listing
from weft.cli.show.screen import screen
from weft.codecs.codec import Codec, Form
from weft.config.registry import CODECS, default_text, parameters
from weft.core.names import Carries

FORM = Form(1 << 20, 4, ((0, (1 << 10, 1 << 10)),))
WARM = 1 << 40
"""A step long after any warm-up."""

WORDS = {Carries.GRADIENT: "gradients", Carries.DELTA: "deltas", Carries.COPY: "answers", Carries.STATE: "parameters"}


def codecs() -> None:
    """List all codecs with their parameters."""
    rows = [_cells(name, cls) for name, cls in CODECS.items()]
    if screen.width < NARROW:
        show_listing("codecs", [(row[0], _lines(*row[1:])) for row in rows])
    else:
        screen.print(_table(rows))
    screen.print("What they mean, and which strategies they go with: docs/codecs.md.")
    screen.print("Use one with --compress 'topk(0.01)', or two in a row: --compress 'topk(0.01) | qsgd(levels=7)'.")


def _cells(name: str, cls: type[Codec]) -> tuple[str, ...]:
    """Its name, parameters, what it carries, whether it feeds back, how much smaller it makes, and its method."""
    codec = cls()
    told = [f"{parameter}={default_text(cls, parameter)}" for parameter in parameters(cls)]
    carried = [word for carries, word in WORDS.items() if carries in cls.carries]
    feedback = "yes" if codec.wants_feedback else "no"
    method = (inspect.getdoc(cls) or "").splitlines()[0]
    return name, ", ".join(told), ", ".join(carried), feedback, times_fewer(codec), method


def _lines(told: str, carried: str, feedback: str, times: str, method: str) -> list[str]:
    fewer = f"{times} times fewer bytes" if times[0].isdigit() else "fewer bytes by what is coded"
    return [method, told, f"{fewer}; carries {carried}; {'with' if feedback == 'yes' else 'no'} feedback"]


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(title="codecs", show_lines=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("parameters", overflow="fold")
    table.add_column("carries", overflow="fold")
    table.add_column("feedback", no_wrap=True)
    table.add_column("times\nfewer bytes", justify="right", no_wrap=True)
    table.add_column("method", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def times_fewer(codec: Codec) -> str:
    """How many times fewer bytes a float32 matrix of a million numbers has; unknown where that depends on values."""
    if codec.varies:
        return "varies"
    return f"{FORM.num_bytes / sum(stage.size(FORM, WARM) for stage in codec.stages()):,.1f}"
