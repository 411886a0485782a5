"""weft topology."""

import pytest
from support.processes.commands import assert_refused, weft_command

from weft.config.registry import TOPOLOGIES
from weft.core.graph import Graph
from weft.topologies import Ring


def cells(out: str) -> dict[str, str]:
    """The names and figures of the table."""
    rows = [line.split("│") for line in out.splitlines() if line.startswith("│ ")]
    return {row[1].strip(): row[2].strip() for row in rows if len(row) > 3}


def test_a_torus_of_16_has_a_gap_of_0_4_and_is_drawn() -> None:
    ended = weft_command("topology", "torus", "-n", 16)
    assert (ended.code, ended.err) == (0, "")
    assert cells(ended.out) == {"degree": "4", "diameter": "4", "messages per step": "64", "spectral gap": "0.4000"}
    assert "╌╌╌4─────5─────6─────7╌╌" in ended.out
    assert ended.out.rstrip().endswith("Dashed edges wrap around to the opposite side.")


@pytest.mark.parametrize("name", sorted(set(TOPOLOGIES) - {"custom"}))
@pytest.mark.parametrize("workers", [1, 4, 7])
def test_every_topology_is_shown_or_refused_with_a_reason(name: str, workers: int) -> None:
    ended = weft_command("topology", name, "-n", workers)
    if ended.code:
        assert ended.code == 2
        assert ended.err.startswith(f"ConfigError: topology '{name}")
    else:
        assert set(cells(ended.out)) == {"degree", "diameter", "messages per step", "spectral gap"}


def test_a_graph_that_cannot_keep_the_mean_has_no_gap_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ring, "build", lambda self, n: Graph([[[1, 2], [2], [0]]]))
    ended = weft_command("topology", "ring", "-n", 3)
    assert ended.code == 0
    assert cells(ended.out)["spectral gap"] == "none"
    assert "no mixing weights keep the mean here" in ended.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rong",), "topology 'rong' is not known.\n  Did you mean 'ring'?"),
        (
            ("torus(3, 3)", "-n", 8),
            "topology 'torus(3, 3)' has 9 places, but there are 8 workers.\n"
            "  Use 'torus(2, 4)', or 'torus' to let Weft choose the sides.",
        ),
        (("ring", "-n", 0), "-n is 0, but a graph needs at least 1 place.\n  Use -n 1."),
        (
            ("custom([(0, 1), (2, 3)])", "-n", 4),
            "topology 'custom' is not connected: no way leads from place 0 to places 2, 3.\n"
            "  Add an edge from a place that can be reached, for example (1, 2).",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[object, ...], message: str) -> None:
    assert_refused("topology", *arguments, because=message)
