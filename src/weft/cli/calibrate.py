"""weft calibrate: measures a script alone, and codecs, and writes a cluster file."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.files import check_writable
from weft.cli.screen import screen
from weft.config.cluster import load_cluster
from weft.config.clusterfile import cluster_toml
from weft.core.errors import ConfigError
from weft.engines.calibration import measure
from weft.engines.codec_speed import codec_speeds


def calibrate(
    script: Annotated[Path, typer.Argument(help="The training script, unchanged.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments for the script, after --.", show_default=False)
    ] = None,
    cluster: Annotated[str, typer.Option(help="The cluster to write the figure into.")] = "rack",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The cluster file to write.")] = None,
    steps: Annotated[int, typer.Option(help="How many steps to measure, after as many to warm up.")] = 20,
) -> None:
    """Measure SCRIPT alone on this machine and write a cluster file: seconds per sample, and how fast codecs are."""
    if steps < 1:
        raise ConfigError(f"--steps is {steps}, but at least 1 must be measured.\n  Use --steps 20.")
    place = load_cluster(cluster)
    output = output or Path(f"{place.name}-calibrated.toml")
    check_writable(output)
    seconds_per_sample = measure(script, tuple(arguments or ()), steps)
    output.write_text(cluster_toml(place.with_seconds_per_sample(seconds_per_sample).with_codecs(codec_speeds())))
    screen.print(f"{seconds_per_sample:.3e} seconds per sample here; with the speed of codecs in {output}")
    screen.print(f"Next: weft simulate {script} -n 16 --cluster {output}")
