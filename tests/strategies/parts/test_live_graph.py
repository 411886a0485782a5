"""The graph of the living."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles.doubly_stochastic import is_doubly_stochastic
from support.simulated.weather import MODERATE, TOPOLOGIES, fits, places

from weft.core.graph import Graph
from weft.strategies.gossip import mixing_of
from weft.strategies.gossip_grad import Rotation
from weft.strategies.parts.live_graph import LiveGraph, first_live_graph, graph_of_living, graph_of_one
from weft.topologies import Custom, Exponential, Hierarchy, Hypercube, Ring, Star, Topology, Torus


def of(topology: Topology, num_workers: int) -> LiveGraph:
    return first_live_graph(topology.graph(num_workers), tuple(range(num_workers)))


def test_at_first_places_are_nodes() -> None:
    ring = of(Ring(), 5)
    assert (ring.targets(0), ring.sources(0), ring.everyone(0)) == ((1, 4), (1, 4), (1, 4))
    assert ring.place(3) == 3


def test_those_who_are_left_take_the_places_in_their_order() -> None:
    left = graph_of_living(of(Exponential(one_peer=True), 6), (0, 2, 3, 5), Exponential(one_peer=True))
    assert [left.targets(3, clock) for clock in range(2)] == [(5,), (0,)]
    assert [left.sources(3, clock) for clock in range(2)] == [(2,), (0,)]
    assert left.everyone(3) == (0, 5)
    assert left.place(5) == 3


def test_a_dynamic_graph_is_made_anew_and_stays_dynamic() -> None:
    left = graph_of_living(of(Exponential(one_peer=True), 8), (0, 1, 2, 4, 5, 6, 7), Exponential(one_peer=True))
    assert left.graph.rounds == Exponential(one_peer=True).graph(7).rounds


@pytest.mark.parametrize(
    "topology", [Hypercube(), Torus(2, 4), Custom([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)])]
)
def test_where_the_recipe_does_not_fit_the_neighbours_of_the_departed_are_joined(topology: Topology) -> None:
    before = of(topology, 8)
    assert graph_of_living(before, (0, 1, 2, 4, 5, 6, 7), topology).graph.rounds == before.graph.without(3).rounds
    without = before.graph.without(7).without(3)
    assert graph_of_living(before, (0, 1, 2, 4, 5, 6), topology).graph.rounds == without.rounds


def test_when_all_are_back_the_first_graph_is() -> None:
    first = of(Hypercube(), 8)
    assert graph_of_living(first, (0, 1, 2, 3, 4, 5, 6, 7), Hypercube()) is first


def test_one_alone_talks_to_nobody() -> None:
    alone = graph_of_one(3)
    assert (alone.targets(3, 5), alone.sources(3, 5), alone.place(3)) == ((), (), 0)


def test_when_the_recipe_fits_again_it_is_followed_again() -> None:
    left = graph_of_living(of(Hypercube(), 8), (0, 2, 5, 7), Hypercube())
    assert left.graph.rounds == Hypercube().graph(4).rounds


def test_who_shares_a_host_still_does() -> None:
    left = graph_of_living(of(Hierarchy(2), 8), (0, 2, 3, 4, 5, 6, 7), Hierarchy(2))
    assert left.everyone(2) == (0, 3)
    assert left.everyone(5) == (4, 6, 7)


def test_a_star_without_its_hub_has_a_new_one() -> None:
    assert graph_of_living(of(Star(), 5), (1, 2, 3, 4), Star()).everyone(1) == (2, 3, 4)


def test_a_hypercube_of_partners_that_has_lost_a_corner_disseminates() -> None:
    recipe = Rotation("hypercube", seed=3)
    assert (
        graph_of_living(of(recipe, 8), (0, 1, 2, 4, 5, 6, 7), recipe).graph.rounds == Rotation(seed=3).graph(7).rounds
    )
    assert graph_of_living(of(recipe, 8), (0, 1, 2, 4), recipe).graph.rounds == recipe.graph(4).rounds


def test_a_graph_that_would_need_more_memory_is_not_made() -> None:
    class Growing(Topology):
        """A directed circle for an odd number of places, a ring for an even one."""

        def build(self, num_places: int) -> Graph:
            return Graph.circulant(num_places, (1,) if num_places % 2 else (1, -1))

    before = of(Growing(), 6)
    assert graph_of_living(before, (0, 1, 2, 3, 4), Growing(), lead_max=1).graph.is_undirected
    assert not graph_of_living(before, (0, 1, 2, 3, 4), Growing(), lead_max=4).graph.is_undirected


def test_workers_of_one_process_share_a_graph() -> None:
    graph = Ring().graph(4)
    first = first_live_graph(graph, (0, 1, 2, 3))
    assert first is first_live_graph(graph, (0, 1, 2, 3))
    assert graph_of_living(first, (0, 1, 2), Ring()) is graph_of_living(first, (0, 1, 2), Ring())


@MODERATE
@given(place=places(), data=st.data())
def test_whoever_leaves_the_rest_is_connected_and_doubly_stochastic(
    place: tuple[Topology, int], data: st.DataObject
) -> None:
    topology, num_workers = place
    first = of(topology, num_workers)
    lead_max = first.graph.lead_max
    living = data.draw(st.sets(st.sampled_from(first.nodes), min_size=1))
    left = graph_of_living(first, tuple(sorted(living)), topology, lead_max)
    assert left.graph.num_places == len(left.nodes) == len(living)
    assert left.graph.is_connected
    assert left.graph.lead_max <= lead_max
    weights = mixing_of(left.graph, "auto")
    assert all(is_doubly_stochastic(weights.matrix(clock)) for clock in range(left.graph.num_rounds))


def test_every_topology_is_among_those_tried() -> None:
    assert all(fits(topology, 8) for topology in TOPOLOGIES)
