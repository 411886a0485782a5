"""What every topology promises, for every number of places that it fits."""

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from support.oracles.doubly_stochastic import is_doubly_stochastic

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies import (
    Complete,
    Custom,
    Exponential,
    Hierarchy,
    Hypercube,
    Mesh,
    RandomRegular,
    Ring,
    Star,
    Topology,
    Torus,
    Tree,
)
from weft.topologies.topology import named
from weft.topologies.weights import mixing

NUMBERS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16)

RECIPES: dict[str, Callable[[int], Topology]] = {
    "complete": lambda n: Complete(),
    "ring": lambda n: Ring(),
    "torus": lambda n: Torus(),
    "torus of one side": lambda n: Torus(n),
    "torus 2 x k": lambda n: Torus(2, n // 2),
    "torus 2 x 2 x k": lambda n: Torus(2, 2, n // 4),
    "mesh": lambda n: Mesh(),
    "mesh 2 x k": lambda n: Mesh(2, n // 2),
    "hypercube": lambda n: Hypercube(),
    "exponential": lambda n: Exponential(),
    "one-peer exponential": lambda n: Exponential(one_peer=True),
    "tree": lambda n: Tree(),
    "tree of three": lambda n: Tree(arity=3),
    "line": lambda n: Tree(arity=1),
    "star": lambda n: Star(),
    "hierarchy of 1": lambda n: Hierarchy(1),
    "hierarchy of 2": lambda n: Hierarchy(2),
    "hierarchy of 3": lambda n: Hierarchy(3),
    "random regular": lambda n: RandomRegular(),
    "random ring": lambda n: RandomRegular(degree=2, seed=7),
    "random cubic": lambda n: RandomRegular(degree=3),
    "custom": lambda n: Custom((i, i // 3) for i in range(1, n)),
}

MISFITS = {
    ("torus 2 x k", 1): "no side of 0",
    ("torus 2 x k", 3): "odd",
    ("torus 2 x k", 5): "odd",
    ("torus 2 x k", 7): "odd",
    ("torus 2 x k", 9): "odd",
    ("torus 2 x 2 x k", 1): "no side of 0",
    ("torus 2 x 2 x k", 2): "no side of 0",
    ("torus 2 x 2 x k", 3): "no side of 0",
    ("torus 2 x 2 x k", 5): "not a multiple of 4",
    ("torus 2 x 2 x k", 7): "not a multiple of 4",
    ("torus 2 x 2 x k", 9): "not a multiple of 4",
    ("mesh 2 x k", 1): "no side of 0",
    ("mesh 2 x k", 3): "odd",
    ("mesh 2 x k", 5): "odd",
    ("mesh 2 x k", 7): "odd",
    ("mesh 2 x k", 9): "odd",
    ("hypercube", 3): "no power of two",
    ("hypercube", 5): "no power of two",
    ("hypercube", 7): "no power of two",
    ("hypercube", 9): "no power of two",
    ("hypercube", 12): "no power of two",
    ("hierarchy of 3", 2): "a host would be empty",
    ("random cubic", 5): "odd",
    ("random cubic", 7): "odd",
    ("random cubic", 9): "odd",
}


@pytest.fixture(params=RECIPES)
def graphs(request: pytest.FixtureRequest) -> list[Graph]:
    """Those of one recipe, for every number of places that it fits."""
    name = request.param
    made = {n: RECIPES[name](n).graph(n) for n in NUMBERS if (name, n) not in MISFITS}
    assert {n: graph.num_places for n, graph in made.items()} == {n: n for n in made}
    return list(made.values())


def test_no_place_lists_itself_or_a_neighbour_twice(graphs: list[Graph]) -> None:
    for graph in graphs:
        for edges in graph.rounds:
            for place, out in enumerate(edges):
                assert place not in out, graph.num_places
                assert len(set(out)) == len(out), graph.num_places


def test_every_graph_is_connected(graphs: list[Graph]) -> None:
    assert [graph.num_places for graph in graphs if not graph.is_connected] == []


def test_the_weights_of_every_round_are_doubly_stochastic(graphs: list[Graph]) -> None:
    for graph in graphs:
        weights = mixing(graph)
        for clock in range(graph.num_rounds):
            assert is_doubly_stochastic(weights.matrix(clock)), (graph.num_places, clock)


def test_the_weights_of_an_undirected_graph_are_symmetric(graphs: list[Graph]) -> None:
    for graph in graphs:
        matrix = mixing(graph).matrix()
        transposed = [list(column) for column in zip(*matrix, strict=True)]
        assert (matrix == transposed) == graph.is_undirected, graph.num_places


def test_whoever_leaves_the_rest_stay_connected_and_doubly_stochastic(graphs: list[Graph]) -> None:
    for graph in graphs:
        for place in range(graph.num_places if graph.num_places > 1 else 0):
            rest = graph.without(place)
            assert rest.num_places == graph.num_places - 1
            assert rest.is_connected, (graph.num_places, place)
            assert rest.is_undirected, (graph.num_places, place)
            assert is_doubly_stochastic(mixing(rest).matrix()), (graph.num_places, place)


def test_a_graph_that_promises_to_look_the_same_from_every_place_does(graphs: list[Graph]) -> None:
    for graph in graphs:
        looked_at = Graph(graph.rounds)
        assert looked_at.diameter == graph.diameter, graph.num_places
        if graph.transitive:
            assert graph.is_regular, graph.num_places


@pytest.mark.parametrize(("name", "num_places"), MISFITS, ids=[f"{name}-{n}" for name, n in MISFITS])
def test_what_does_not_fit_is_refused_with_a_reason_and_an_advice(name: str, num_places: int) -> None:
    with pytest.raises(ConfigError, match=r"^topology '.*\n  .*(Use|use) .*\.$"):
        RECIPES[name](num_places).graph(num_places)


@pytest.mark.parametrize("topology", [recipe(16) for recipe in RECIPES.values()], ids=list(RECIPES))
def test_a_recipe_is_comparable_hashable_picklable_and_makes_the_same_graph_everywhere(
    topology: Topology,
) -> None:
    again = pickle.loads(pickle.dumps(topology))
    assert again == topology
    assert hash(again) == hash(topology)
    assert again.graph(16).rounds == topology.graph(16).rounds


@pytest.mark.parametrize("topology", [Torus(3, 3), Hypercube(), Hierarchy(4), Custom([(0, 1), (1, 2)])], ids=str)
def test_one_place_alone_fits_every_recipe_and_has_no_edges(topology: Topology) -> None:
    assert topology.graph(1).rounds == (((),),)


def test_no_places_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^topology 'ring' cannot have 0 places\.\n  Use at least 1 worker\.$"):
        Ring().graph(0)


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (Ring(), "ring"),
        (Torus(), "torus"),
        (Torus(2, 4), "torus(2, 4)"),
        (Mesh(3, 3, 3), "mesh(3, 3, 3)"),
        (Exponential(), "exponential"),
        (Exponential(one_peer=True), "exponential(one_peer=True)"),
        (Hierarchy(2), "hierarchy(hosts=2)"),
        (RandomRegular(), "random_regular"),
        (RandomRegular(6, seed=1), "random_regular(degree=6, seed=1)"),
        (Custom([(0, 1)]), "custom"),
    ],
    ids=str,
)
def test_a_recipe_is_written_as_the_command_line_writes_it(topology: Topology, text: str) -> None:
    assert str(topology) == text


@dataclass(frozen=True)
class OneWay(Topology):
    """A line of directed edges: towards place 0, or away from it."""

    step: int

    def build(self, num_places: int) -> Graph:
        places = range(num_places)
        return Graph([[[i + self.step] if i + self.step in places else [] for i in places]])


def test_a_graph_with_places_out_of_reach_is_refused_and_says_what_to_add() -> None:
    message = (
        "topology 'one_way(step=-1)' is not connected: no way leads from place 0 to places 1, 2, 3.\n"
        "  Add an edge from a place that can be reached, for example (0, 1)."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        OneWay(step=-1).graph(4)


def test_a_graph_with_places_of_no_return_is_refused_and_says_what_to_add() -> None:
    message = (
        "topology 'one_way(step=1)' is not connected: no way leads back from places 1, 2, 3 to place 0.\n"
        "  Add an edge out of there, for example (1, 0)."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        OneWay(step=1).graph(4)


def test_a_recipe_is_followed_again_for_those_who_are_left_where_it_fits() -> None:
    remade = Exponential(one_peer=True).remade(5)
    assert remade is not None
    assert remade.rounds == Exponential(one_peer=True).graph(5).rounds
    assert Hypercube().remade(5) is None


def test_messages_name_a_few_places_and_count_the_rest() -> None:
    assert named([3]) == "place 3"
    assert named([3, 4]) == "places 3, 4"
    assert named(list(range(20))) == "places 0, 1, 2, 3, 4, 5, 6, 7 and 12 more"
