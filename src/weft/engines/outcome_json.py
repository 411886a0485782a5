"""What the outcomes of real and of simulated runs have in common in `--json`: plain data, finite or None."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec.structs import asdict

from weft.observe.records.status import CodingStatus
from weft.observe.records.timeline import timeline
from weft.observe.records.tracks import Tracks


def histogram(ages: Mapping[int, int]) -> dict[str, int]:
    """The number of updates by their age in steps, newest first; the keys are text, as JSON requires."""
    return {str(age): ages[age] for age in sorted(ages)}


def timeline_json(tracks: Tracks | None) -> list[list[list[Any]]] | None:
    """For each worker, its activities in a few steps of the run; None if the run was not traced."""
    return None if tracks is None else [[list(span) for span in lane] for lane in timeline(tracks)]


def coding_json(coding: CodingStatus | None) -> dict[str, Any] | None:
    """What codecs have done, in plain data."""
    return None if coding is None else asdict(coding)


def finite(value: Any) -> Any:
    """`value`, with None for numbers that are not finite, which JSON cannot express."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value
