"""Pictures are compared as they are seen."""

from itertools import product

import pytest

from weft.cli.show.topology import draw
from weft.core.graph import Graph
from weft.topologies import (
    Complete,
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

RING_OF_8 = """\
            0
         ⢀⣀⠤●⠤⢄⣀
   7 ●⠒⠊⠉⠁      ⠉⠉⠒● 1
    ⢰⠁             ⠈⡆
   ⢀⠇               ⠘⡄
   ⡎                 ⢱
6 ●                   ● 2
  ⠈⡆                 ⢰⠁
   ⠘⡄               ⢀⠇
    ⢱               ⡎
   5 ●⠤⢄⣀       ⢀⣀⠤● 3
         ⠉⠉⠒●⠒⠊⠉⠁
            4"""

STAR_OF_6 = """\
            1
            ●
            ⢸
            ⢸
5 ●⠤⣀       ⢸       ⢀⡠● 2
     ⠉⠑⠢⠤⣀  ⢸  ⢀⡠⠤⠒⠉⠁
          ⠉ 0 ⠉⠁
          ⢀⠎ ⠑⡄
         ⡰⠁   ⠈⢢
       ⢀⠎       ⠑⡄
    4 ●⠁         ⠈● 3"""

ONE_PEER_OF_8 = """\
            0
            ●⡤⢄⣀
   7 ●      ⢸⠈⠢⡀⠉⠉⠒● 1
            ⢸  ⠈⠢⡀
            ⢸    ⠈⠢⡀
            ⢸      ⠈⠢⡀
6 ●         ⢸        ⠈● 2
            ⢸
            ⢸
            ⢸
   5 ●      ⢸      ● 3
            ●
            4

Lines show place 0; the others do the same.
Round 0: place i sends to i + 1.
Round 1: place i sends to i + 2.
Round 2: place i sends to i + 4.
Then from round 0 again."""

EXPONENTIAL_OF_40 = """\
    0                 39
   ┌────────────────────┐
 0 │⠈⠳⣕⢄⠑⢄  ⠑⢄      ⠑⢄  │
   │  ⠈⠳⣕⢄⠑⢄  ⠑⢄      ⠑⢄│
   │⠑⢄  ⠈⠳⣕⢄⠑⢄  ⠑⢄      │
   │  ⠑⢄  ⠈⠳⣕⢄⠑⢄  ⠑⢄    │
   │    ⠑⢄  ⠈⠳⣕⢄⠑⢄  ⠑⢄  │
   │      ⠑⢄  ⠈⠳⣕⢄⠑⢄  ⠑⢄│
   │⠑⢄      ⠑⢄  ⠈⠳⣕⢄⠑⢄  │
   │  ⠑⢄      ⠑⢄  ⠈⠳⣕⢄⠑⢄│
   │⠑⢄  ⠑⢄      ⠑⢄  ⠈⠳⣕⢄│
39 │⣕⢄⠑⢄  ⠑⢄      ⠑⢄  ⠈⠳│
   └────────────────────┘

A dot: the place of its row sends to the place of its column."""

ONE_WAY_OF_4 = """\
  0 1 2 3
0 · ● · ·
1 ● · ● ·
2 · · · ●
3 ● · · ·

A dot: the place of its row sends to the place of its column."""


def test_a_ring_is_a_circle() -> None:
    assert draw(Ring().graph(8)) == RING_OF_8


def test_a_star_has_its_hub_in_the_middle() -> None:
    assert draw(Star().graph(6)) == STAR_OF_6


def test_of_a_directed_circle_one_place_is_drawn_and_every_round_told() -> None:
    assert draw(Exponential(one_peer=True).graph(8)) == ONE_PEER_OF_8


def test_a_static_directed_circle_is_told_in_one_sentence() -> None:
    assert draw(Exponential().graph(16)).endswith(
        "\n\nLines show place 0; the others do the same.\nPlace i sends to i + 1, i + 2, i + 4, i + 8."
    )


def test_a_round_in_which_nobody_sends_is_told_too() -> None:
    assert "Round 0: place i sends to nobody." in draw(Graph.circulant(3, (), (1,)))


def test_many_places_are_a_table_of_dots() -> None:
    assert draw(Exponential().graph(40)) == EXPONENTIAL_OF_40


def test_a_small_graph_of_one_way_edges_is_a_table_with_names() -> None:
    assert draw(Graph([[[1], [0, 2], [3], [0]]])) == ONE_WAY_OF_4


def test_too_many_places_share_their_dots() -> None:
    assert draw(Torus().graph(1024)).endswith("One dot stands for 8 x 8 places.")


def test_a_table_says_that_it_shows_all_rounds() -> None:
    told = "All 6 rounds are shown together."
    assert draw(Exponential(one_peer=True).graph(64)).endswith(told)


def test_one_place_is_its_number() -> None:
    assert draw(Ring().graph(1)) == "0"


@pytest.mark.parametrize(
    "topology",
    [
        Complete(),
        Ring(),
        Torus(),
        Mesh(),
        Exponential(),
        Exponential(one_peer=True),
        Tree(),
        Tree(arity=1),
        Tree(arity=9),
        Star(),
        Hierarchy(2),
        RandomRegular(),
    ],
    ids=str,
)
def test_pictures_fit_the_columns_and_one_screen(topology: Topology) -> None:
    for num_places, columns in product([2, 3, 5, 8, 16, 31, 32, 64, 256], [24, 40, 78, 200]):
        lines = draw(topology.graph(num_places), columns).split("\n")
        assert max(map(len, lines)) <= columns, num_places
        assert len(lines) <= 45, (num_places, columns)
        assert all(line == line.rstrip() for line in lines), (num_places, columns)


@pytest.mark.parametrize("topology", [Ring(), Torus(), Hypercube(), Complete(), Tree(), Star()], ids=str)
def test_small_pictures_name_every_place(topology: Topology) -> None:
    words = draw(topology.graph(16)).replace("─", " ").replace("╌", " ").replace("●", " ").split()
    assert {str(place) for place in range(16)} <= set(words)


def test_columns_below_24_are_taken_as_24() -> None:
    assert draw(Ring().graph(8), 1) == draw(Ring().graph(8), 24)
