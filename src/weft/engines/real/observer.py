"""The callbacks by which a screen, a log or a notebook follows a run of real workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.engines.explanation import Explanation
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame


@dataclass
class Observer:
    """Callbacks of one observer; each does nothing unless it is set. All are called in the supervisor's thread."""

    on_status: Callable[[Status], None] = lambda status: None
    on_line: Callable[[int, str, bool], None] = lambda rank, text, is_error: None
    on_report: Callable[[int, dict[str, float]], None] = lambda epoch, numbers: None
    on_tell: Callable[[str], None] = lambda text: None
    on_lost: Callable[[int], None] = lambda rank: None
    """A worker is lost, and the others go on."""
    on_replaced: Callable[[int], None] = lambda rank: None
    """A newcomer has taken the place of a lost worker."""
    on_turn: Callable[[], None] = lambda: None
    on_explain: Callable[[Explanation], None] = lambda explanation: None
    on_reported: Callable[[Mapping[str, float | None]], None] = lambda report: None
    """A report as the outcome keeps it: with its epoch, its time, and the consensus distance."""
    on_blame: Callable[[Blame], None] = lambda blame: None
    """A worker was just found to be slow."""
    on_slow: Callable[[Sequence[Blame]], None] = lambda blames: None
    """All workers that are slow now, and why."""
