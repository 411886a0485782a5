"""Whoever looks on while real workers run: what it is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.engines.explanation import Explanation
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame


@dataclass
class Observer:
    """Whoever looks on."""

    on_status: Callable[[Status], None] = lambda status: None
    on_line: Callable[[int, str, bool], None] = lambda rank, text, is_error: None
    on_report: Callable[[int, dict[str, float]], None] = lambda epoch, numbers: None
    on_tell: Callable[[str], None] = lambda text: None
    on_turn: Callable[[], None] = lambda: None
    on_explain: Callable[[Explanation], None] = lambda explanation: None
    on_reported: Callable[[Mapping[str, float | None]], None] = lambda report: None
    """A report as the outcome has it: with its epoch, its time, and how far the replicas were apart."""
    on_blame: Callable[[Blame], None] = lambda blame: None
    """Somebody is slow, as is found just now."""
    on_slow: Callable[[Sequence[Blame]], None] = lambda blames: None
    """Who is slow now, and why."""
