"""The options of `weft compare` that other verbs do not have: how they are called, and what they say of themselves."""

from pathlib import Path
from typing import Annotated

import typer

Contenders = Annotated[
    list[str] | None,
    typer.Option(
        help="A contender, e.g. 'ssp(staleness=3)' or 'allreduce + topk(0.01) share=proportional'; or 'all'.",
        show_default="five usual ones",
    ),
]
Codecs = Annotated[list[str] | None, typer.Option(help="Every strategy with this codec; several: with each of them.")]
Shares = Annotated[
    list[str] | None, typer.Option(help="Every strategy with data shared so; several: with each of them.")
]
Baselines = Annotated[
    list[str] | None, typer.Option(help="ddp, ddp+fp16 or ddp+powersgd: torch's DistributedDataParallel, too.")
]
Target = Annotated[str | None, typer.Option(help="What counts as learned, e.g. accuracy=0.97.")]
Seeds = Annotated[int, typer.Option(help="How many times each contender runs, each with a seed of its own.")]
Report = Annotated[
    Path, typer.Option(help="The page to write; a picture and all figures go beside it, as .png and .json.")
]
Simulate = Annotated[bool, typer.Option("--simulate", help="In virtual time, on simulated workers.")]
Cluster = Annotated[
    str | None, typer.Option(help="What --simulate simulates: rack, cloud, edge, or a file of `weft calibrate`.")
]
