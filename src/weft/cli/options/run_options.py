"""The options of `weft run`: how they are called, what they say of themselves, and what their texts mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.show.options import show_if_asked
from weft.config.options import FLAGS
from weft.core.errors import ConfigError

Script = Annotated[Path, typer.Argument(help="A training script, unchanged.", show_default=False)]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments for the script, after --.", show_default=False)]
Workers = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--workers",
        metavar="N or MIN..MAX",
        help="How many workers; 2..4: four, and the run goes on as long as two are left.",
        show_default="2",
    ),
]
NumWorkers = Annotated[int | None, typer.Option("-n", "--workers", help="How many workers.", show_default="2")]
OnLoss = Annotated[
    str | None,
    typer.Option(
        "--on-loss",
        help="When a worker dies or hangs: replace it, shrink (the others go on without it), or stop.",
        show_default="replace, where that works",
    ),
]
OnNan = Annotated[
    str | None,
    typer.Option(
        "--on-nan",
        help="When a gradient is not finite: exclude it, or stop the run.",
        show_default="exclude",
    ),
]
Chaos = Annotated[
    str | None, typer.Option(help="Lose workers now and then, to try your script, e.g. 'kill every 15s seed 7'.")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(help="A folder for checkpoints. The same command again goes on from the newest one.", metavar="DIR"),
]
CheckpointEvery = Annotated[
    str | None, typer.Option("--checkpoint-every", help="500steps, 1epoch, 5m, ...", show_default="10m")
]
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
Steps = Annotated[int | None, typer.Option(help="End every worker after so many steps from the run's beginning.")]
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


def options_of(
    on_loss: str | None, on_nan: str | None, chaos: str | None, checkpoint: Path | None, checkpoint_every: str | None
) -> list[str]:
    """What these flags are as options of --set."""
    values = (on_loss, on_nan, chaos, checkpoint, checkpoint_every)
    return [f"{option}={value}" for option, value in zip(FLAGS, values, strict=True) if value is not None]


def numbers_of_workers(text: str | None) -> tuple[int | None, int | None]:
    """The fewest and the most workers of '4' or '2..4'; None for what is not said."""
    if text is None:
        return None, None
    fewest, dots, most = text.partition("..")
    try:
        low, high = (int(fewest), int(most)) if dots else (None, int(fewest))
    except ValueError as error:
        raise ConfigError(
            f"-n got '{text}', but wants a number, or MIN..MAX.\n  Write e.g. -n 4 or -n 2..4."
        ) from error
    if low is not None and not 1 <= low <= high:
        raise ConfigError(f"-n is '{text}', but MIN..MAX wants 1 <= MIN <= MAX.\n  Write e.g. -n 2..4.")
    return low, high


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
