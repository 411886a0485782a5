"""How fast a graph mixes: the spectral gap of its weights."""

from typing import TYPE_CHECKING, Any

from weft.core.graph import Graph
from weft.topologies.weights import AUTO, Mixing, mixing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


def spectral_gap(graph: Graph, weights: str = AUTO) -> float:
    """1 - the second largest eigenvalue modulus of W: 1 is the exact mean in one step, 0 never mixes.

    Each step shrinks the distance to the mean by 1 - gap in the long run. For a dynamic graph it is
    the rate of one round: of the product of all rounds, to the power of 1 / num_rounds.
    """
    import numpy as np  # heavy: importing weft must not import it

    rule = mixing(graph, weights)
    product = _matrix(rule, 0)
    for clock in range(1, graph.num_rounds):
        product = _matrix(rule, clock) @ product
    # Taking the mean away takes the eigenvalue 1 away and leaves the others.
    second = _largest_modulus(product - 1.0 / graph.num_places)
    if second < graph.num_places * np.finfo(np.float64).eps:
        return 1.0
    return float(max(0.0, 1.0 - second ** (1.0 / graph.num_rounds)))


def _matrix(rule: Mixing, clock: int) -> "Matrix":
    import numpy as np

    result = np.zeros((rule.graph.num_places, rule.graph.num_places))
    for place in range(rule.graph.num_places):
        row = rule.row(place, clock)
        result[place, list(row)] = list(row.values())
        result[place, place] = rule.keep(place, clock)
    return result


def _largest_modulus(matrix: "Matrix") -> float:
    """The spectral radius, by the cheapest way that is exact for this kind of matrix."""
    import numpy as np

    places = np.arange(len(matrix))
    shifted = matrix[places[:, None], (places[:, None] + places) % len(matrix)]
    values: Any
    if np.allclose(shifted, matrix[0], rtol=0.0, atol=1e-15):
        values = np.fft.fft(matrix[0])  # circulant: every row is the first one, shifted
    elif np.array_equal(matrix, matrix.T):
        values = np.linalg.eigvalsh(matrix)
    else:
        values = np.linalg.eigvals(matrix)
    return float(np.abs(values).max())
