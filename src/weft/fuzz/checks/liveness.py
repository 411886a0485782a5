"""1. No hang: after faults stop the run ends within its bound, and no protocol breaks."""

from collections.abc import Iterator

from weft.fuzz.evidence import Evidence, Violation


def ends(evidence: Evidence) -> Iterator[Violation]:
    if evidence.error is not None:
        yield Violation(1, f"{type(evidence.error).__name__}: {evidence.error}")
