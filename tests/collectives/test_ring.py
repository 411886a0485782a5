"""The ring's schedule."""

from weft.collectives import ring
from weft.core.names import Part
from weft.core.schedule import Give, Take


def test_parts_travel_around_first_summing_then_spreading() -> None:
    assert ring(0, 3) == (
        Give(1, Part(0, 3)),
        Take(2, Part(2, 3)),
        Give(1, Part(2, 3)),
        Take(2, Part(1, 3)),
        Give(1, Part(1, 3)),
        Take(2, Part(0, 3), replace=True),
        Give(1, Part(0, 3)),
        Take(2, Part(2, 3), replace=True),
    )


def test_everybody_gives_the_next_2p_minus_2_parts() -> None:
    for rank in range(5):
        gives = [step for step in ring(rank, 5) if isinstance(step, Give)]
        assert len(gives) == 8
        assert {give.to for give in gives} == {(rank + 1) % 5}
        assert {give.part.of for give in gives if give.part} == {5}
