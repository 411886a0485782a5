"""How sides fit a number of places."""

import re
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import ConfigError
from weft.topologies import Mesh, Torus
from weft.topologies.grid import near_equal_sides


@pytest.mark.parametrize(
    ("num_places", "num_sides", "sides"),
    [
        (8, 2, (2, 4)),
        (16, 2, (4, 4)),
        (7, 2, (1, 7)),
        (12, 2, (3, 4)),
        (12, 3, (2, 2, 3)),
        (27, 3, (3, 3, 3)),
        (5, 1, (5,)),
    ],
)
def test_sides_are_as_equal_as_the_divisors_allow(num_places: int, num_sides: int, sides: tuple[int, ...]) -> None:
    assert near_equal_sides(num_places, num_sides) == sides


@given(st.integers(1, 1024), st.integers(1, 4))
def test_sides_always_multiply_to_the_number_of_places(num_places: int, num_sides: int) -> None:
    sides = near_equal_sides(num_places, num_sides)
    assert len(sides) == num_sides
    assert prod(sides) == num_places


@pytest.mark.parametrize(
    ("topology", "num_workers", "message"),
    [
        (
            Torus(3, 3),
            8,
            (
                "topology 'torus(3, 3)' has 9 places, but there are 8 workers.\n"
                "  Use 'torus(2, 4)', or 'torus' to let Weft choose the sides."
            ),
        ),
        (
            Mesh(2, 2, 2),
            12,
            (
                "topology 'mesh(2, 2, 2)' has 8 places, but there are 12 workers.\n"
                "  Use 'mesh(2, 2, 3)', or 'mesh' to let Weft choose the sides."
            ),
        ),
        (
            Torus(7),
            8,
            (
                "topology 'torus(7)' has 7 places, but there are 8 workers.\n"
                "  Use 'torus(8)', or 'torus' to let Weft choose the sides."
            ),
        ),
        (
            Torus(2, 3),
            7,
            (
                "topology 'torus(2, 3)' has 6 places, but there are 7 workers.\n"
                "  7 is prime: use 6 workers, or 'torus', which is then a ring of 7."
            ),
        ),
        (
            Mesh(2, 3),
            5,
            (
                "topology 'mesh(2, 3)' has 6 places, but there are 5 workers.\n"
                "  5 is prime: use 6 workers, or 'mesh', which is then a line of 5."
            ),
        ),
    ],
    ids=str,
)
def test_sides_that_do_not_fit_are_refused_with_sides_that_do(
    topology: Torus | Mesh, num_workers: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        topology.graph(num_workers)


@pytest.mark.parametrize("side", [0, -2, "4", 2.0])
def test_a_side_that_is_no_number_of_places_is_refused(side: object) -> None:
    message = (
        f"topology 'torus({side}, 4)' has a side of {side!r}, but a side is 1, 2, 3 or more places.\n"
        "  Use for example 'torus(2, 4)', or 'torus' to let Weft choose the sides."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Torus(side, 4)  # type: ignore[arg-type]
