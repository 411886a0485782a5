"""The options of `weft run`: how they are called, what they say of themselves, and what their texts mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.show.options import show_if_asked
from weft.core.errors import ConfigError

Script = Annotated[Path, typer.Argument(help="A training script, unchanged.", show_default=False)]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments for the script, after --.", show_default=False)]
Workers = Annotated[int | None, typer.Option("-n", "--workers", help="How many workers.", show_default="2")]
Strategies = Annotated[
    list[str] | None,
    typer.Option(help="e.g. 'ssp(staleness=3)'; repeat it to compare, or say 'all'.", show_default="allreduce"),
]
Transport = Annotated[
    str | None,
    typer.Option(
        help="shm (shared memory), tcp, or torch (torch.distributed sums).", show_default="shm; tcp with --net"
    ),
]
Hosts = Annotated[
    int,
    typer.Option(help="Let the workers behave as if they were on so many machines: shared memory within, TLS between."),
]
On = Annotated[
    str | None, typer.Option(help="Where: here, or ray (a Ray cluster; started on this machine if there is none).")
]
Net = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[WORKER:]RATE,DELAY[,LOSS]",
        help="A slow network between the workers (root on Linux), e.g. 100mbit,10ms or 20mbit,50ms,1%. "
        "RATE is of each worker's link, each way; DELAY is one way. Once more, 2:20mbit,30ms is the link of worker 2.",
    ),
]
Compress = Annotated[
    str | None, typer.Option(help="A codec for what is sent, e.g. 'topk(0.01)', or none; `weft codecs` lists them.")
]
Share = Annotated[
    str | None,
    typer.Option(
        help="How data is shared: static (evenly), proportional (by what workers do in equal time) or stealing "
        "(each takes the next batch when it has time).",
        show_default="static",
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say how the run is done, and what else it could cost.")]
Slow = Annotated[list[str] | None, typer.Option(help="WORKER:FACTOR stretches a worker's iterations, e.g. 0:4.")]
ScaleLr = Annotated[
    bool, typer.Option("--scale-lr", help="Multiply the script's learning rates by the number of workers.")
]
Warmup = Annotated[int, typer.Option(help="Reach the learning rates in so many steps, from those of one worker.")]
Baseline = Annotated[
    str | None, typer.Option(help="ddp, ddp+fp16 or ddp+powersgd: also run under torch's DistributedDataParallel.")
]
Seed = Annotated[int | None, typer.Option(help="Of the data's order and the peers' choices.")]
Steps = Annotated[int | None, typer.Option(help="End every worker after so many steps.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.NAME=VALUE",
        help="An option that few need, e.g. reduce.collective=ring, or strategy.staleness=3 for a parameter of the "
        "strategy; --set help lists them.",
        callback=show_if_asked,
        is_eager=True,
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write all figures to this file.")]


def slow_workers(texts: Sequence[str]) -> dict[int, float]:
    """Which workers are how many times slower."""
    slow = {}
    for text in texts:
        worker, _, factor = text.partition(":")
        try:
            slow[int(worker)] = float(factor)
        except ValueError as error:
            raise ConfigError(f"--slow got '{text}', but wants WORKER:FACTOR.\n  Write e.g. --slow 0:4.") from error
    return slow
