"""How fast a graph mixes."""

import subprocess
import sys

import numpy as np
import pytest

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies import (
    Complete,
    Exponential,
    Hierarchy,
    Mesh,
    RandomRegular,
    Ring,
    Star,
    Topology,
    Torus,
    Tree,
)
from weft.topologies.spectrum import spectral_gap
from weft.topologies.weights import mixing


@pytest.mark.parametrize(("num_places", "gap"), [(16, 0.40), (64, 0.117), (256, 0.030)])
def test_a_torus_mixes_slower_the_larger_it_is(num_places: int, gap: float) -> None:
    assert spectral_gap(Torus().graph(num_places)) == pytest.approx(gap, abs=6e-4)


@pytest.mark.parametrize(("num_places", "gap"), [(16, 0.40), (64, 0.286), (256, 0.222), (1024, 0.182)])
def test_an_exponential_graph_hardly_does(num_places: int, gap: float) -> None:
    assert spectral_gap(Exponential().graph(num_places)) == pytest.approx(gap, abs=6e-4)


@pytest.mark.parametrize(
    "topology",
    [Ring(), Torus(), Mesh(), Star(), Tree(), Exponential(), Hierarchy(3), RandomRegular()],
    ids=str,
)
def test_the_gap_is_one_minus_the_second_largest_eigenvalue(topology: Topology) -> None:
    graph = topology.graph(12)
    moduli = sorted(np.abs(np.linalg.eigvals(np.array(mixing(graph).matrix()))))
    assert moduli[-1] == pytest.approx(1.0)
    assert spectral_gap(graph) == pytest.approx(1.0 - moduli[-2], abs=1e-9)


def test_the_complete_graph_and_one_place_alone_are_mixed_in_one_step() -> None:
    assert spectral_gap(Complete().graph(7)) == pytest.approx(1.0)
    assert spectral_gap(Ring().graph(1)) == 1.0


def test_all_rounds_of_a_one_peer_graph_of_a_power_of_two_give_the_exact_mean() -> None:
    assert spectral_gap(Exponential(one_peer=True).graph(16)) == 1.0


def test_the_gap_of_a_dynamic_graph_is_that_of_one_round() -> None:
    graph = Exponential(one_peer=True).graph(6)
    rounds = [np.array(mixing(graph).matrix(clock)) for clock in range(3)]
    moduli = sorted(np.abs(np.linalg.eigvals(rounds[2] @ rounds[1] @ rounds[0])))
    assert spectral_gap(graph) == pytest.approx(1.0 - moduli[-2] ** (1 / 3), abs=1e-9)


def test_the_gap_of_a_directed_graph_that_is_no_circulant_is_found_too() -> None:
    graph = Graph([[[1], [2], [0], [0, 4], [3]]])
    with pytest.raises(ConfigError, match=r"^no mixing weights keep the mean here: "):
        spectral_gap(graph)
    swapped = Graph([[[1, 2], [0, 3], [3, 1], [2, 0]]])
    moduli = sorted(np.abs(np.linalg.eigvals(np.array(mixing(swapped).matrix()))))
    assert spectral_gap(swapped) == pytest.approx(1.0 - moduli[-2], abs=1e-9)


def test_a_graph_in_pieces_never_mixes() -> None:
    assert spectral_gap(Graph.undirected(4, [(0, 1), (2, 3)])) == pytest.approx(0.0, abs=1e-12)


def test_importing_the_room_does_not_import_numpy() -> None:
    rooms = "weft.topologies, weft.topologies.spectrum, weft.topologies.weights"
    program = f"import {rooms}, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
