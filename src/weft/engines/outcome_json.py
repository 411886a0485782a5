"""What the outcomes of real and of simulated runs have in common in `--json`: plain data, finite or None."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec.structs import asdict

from weft.observe.records.status import CodingStatus
from weft.observe.records.timeline import timeline
from weft.observe.records.tracks import Tracks


def histogram(ages: Mapping[int, int]) -> dict[str, int]:
    """How many updates were how many steps old, from the newest to the oldest; JSON has no other names than text."""
    return {str(age): ages[age] for age in sorted(ages)}


def timeline_json(tracks: Tracks | None) -> list[list[list[Any]]] | None:
    """For each worker, what it did in a stretch of the run; None if that was not kept."""
    return None if tracks is None else [[list(span) for span in lane] for lane in timeline(tracks)]


def coding_json(coding: CodingStatus | None) -> dict[str, Any] | None:
    """What codecs have done, in plain data."""
    return None if coding is None else asdict(coding)


def finite(value: Any) -> Any:
    """The same, with None for numbers that are not finite, which JSON cannot say."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value
