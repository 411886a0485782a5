"""The options of `weft run`: how they are called, what they say of themselves, and what their texts mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from weft.config.registry import COLLECTIVES
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
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Of the Ray cluster, or auto.", show_default="RAY_ADDRESS, if it is set"),
]
Resources = Annotated[
    str | None,
    typer.Option(
        "--resources-per-worker", help="Of a Ray cluster, e.g. cpu=1,gpu=0,memory=4GiB.", show_default="cpu=1"
    ),
]
Net = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[WORKER:]RATE,DELAY[,LOSS]",
        help="A slow network between the workers (root on Linux), e.g. 100mbit,10ms or 20mbit,50ms,1%. "
        "RATE is of each worker's link, each way; DELAY is one way. Once more, 2:20mbit,30ms is the link of worker 2.",
    ),
]
Collective = Annotated[
    str | None, typer.Option(help=f"Say all-reduce in messages: {', '.join(COLLECTIVES)}; auto takes the cheapest.")
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
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        metavar="WORKER:KIND",
        help="Put a worker on a device, e.g. '1:fake(bandwidth=1GB/s, latency=20us)'.",
    ),
]
Slow = Annotated[list[str] | None, typer.Option(help="WORKER:FACTOR stretches a worker's iterations, e.g. 0:4.")]
Hiccups = Annotated[
    str | None, typer.Option(help="SHARE:FACTOR: a share of all iterations, at random, takes longer, e.g. 0.1:8.")
]
GlobalBatch = Annotated[
    int | None, typer.Option(help="Samples of one step over all workers; default: batch_size for each.")
]
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
    list[str] | None, typer.Option("--set", help="An option, e.g. worker.threads=2 or strategy.staleness=3.")
]
CheckReplay = Annotated[
    bool, typer.Option("--check-replay", help="Record the run and feed it to fresh peers at the end.")
]
Trace = Annotated[
    Path | None,
    typer.Option(help="Write what every worker did and sent, for ui.perfetto.dev, to this .json or .json.gz."),
]
Log = Annotated[Path | None, typer.Option(help="Write a line of JSON for each status, report and end to this file.")]
TensorBoard = Annotated[
    Path | None, typer.Option("--tensorboard", help="Write scalars for TensorBoard into this folder.")
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


def share_and_factor(text: str | None) -> tuple[float, float]:
    """How many of all iterations take how many times as long; none unless asked for."""
    if text is None:
        return 0.0, 1.0
    share, _, factor = text.partition(":")
    try:
        return float(share), float(factor)
    except ValueError as error:
        raise ConfigError(f"--hiccups got '{text}', but wants SHARE:FACTOR.\n  Write e.g. --hiccups 0.1:8.") from error
