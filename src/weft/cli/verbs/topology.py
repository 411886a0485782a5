"""weft topology: a graph's numbers, and what it looks like."""

from typing import Annotated

import typer
from rich.table import Table

from weft.cli.show.screen import screen
from weft.cli.show.topology import draw
from weft.config.registry import topology as topology_of
from weft.core.errors import ConfigError
from weft.topologies.spectrum import spectral_gap


def topology(
    name: Annotated[str, typer.Argument(help="e.g. ring, torus, 'torus(4, 4)', 'exponential(one_peer=true)'.")],
    workers: Annotated[int, typer.Option("-n", "--workers", help="How many workers.")] = 16,
) -> None:
    """Show a topology: degree, diameter, spectral gap and a drawing."""
    if workers < 1:
        raise ConfigError(f"-n is {workers}, but a graph needs at least 1 place.\n  Use -n 1.")
    graph = topology_of(name).graph(workers)
    table = Table(title=f"{name} of {workers}", show_header=False)
    table.add_row("degree", f"{graph.degree}", "the most neighbours that a worker sends to in one step")
    table.add_row("diameter", f"{graph.diameter}", "the most hops between two workers")
    table.add_row("messages per step", f"{graph.edges_per_step:g}", "over all workers")
    try:
        gap = f"{spectral_gap(graph):.4f}"
        meaning = "how fast gossip forgets differences: 1 at once, 0 never"
    except ConfigError as error:
        gap, meaning = "none", str(error).splitlines()[0]
    table.add_row("spectral gap", gap, meaning)
    screen.print(table)
    screen.print(draw(graph, min(screen.width, 100)), markup=False)
