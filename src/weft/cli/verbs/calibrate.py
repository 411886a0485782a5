"""weft calibrate: measures a script, alone or on several workers, and codecs, and writes a cluster file."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options.run_options import Transport
from weft.cli.show.files import check_writable, write_or_show
from weft.cli.show.progress import progress
from weft.cli.show.screen import errors, screen
from weft.config.cluster import load_cluster
from weft.config.clusterfile import cluster_toml
from weft.core.errors import ConfigError
from weft.engines.calibrate.codecs import codec_speeds
from weft.engines.calibrate.script import measure
from weft.engines.calibrate.workers import this_machine
from weft.engines.real.job import RealJob
from weft.runtime.connections import SHM


def calibrate(
    script: Annotated[Path, typer.Argument(help="The training script, unchanged.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments for the script, after --.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "-n", "--workers", help="Measure so many real workers here: the file is this machine.", show_default=False
        ),
    ] = None,
    transport: Transport = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Measure the script alone, and write its figures into this cluster.", show_default="rack"),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The cluster file to write.")] = None,
    steps: Annotated[int, typer.Option(help="How many steps to measure, after as many to warm up.")] = 20,
) -> None:
    """Measure SCRIPT on this machine and write a cluster file: what steps cost, and how fast codecs are."""
    if steps < 1:
        raise ConfigError(f"--steps is {steps}, but at least 1 must be measured.\n  Use --steps 20.")
    if workers is not None and cluster is not None:
        raise ConfigError(
            "-n measures this machine, --cluster writes into another one's figures.\n  Leave out one of them."
        )
    base = load_cluster(cluster or "rack")
    output = output or Path(f"{base.name}-calibrated.toml" if workers is None else "this-machine.toml")
    check_writable(output)
    with progress(f"measuring {script}") as tell:
        if workers is None:
            place = base.with_seconds_per_sample(measure(script, tuple(arguments or ()), steps))
        else:
            job = RealJob(
                script=script, arguments=tuple(arguments or ()), num_workers=workers, transport=transport or SHM
            )
            place = this_machine(job, steps, lambda text: errors.print(text, markup=False))
        tell("measuring codecs; the first time, they are compiled, which takes a minute or more")
        place = place.with_codecs(codec_speeds())
    if not write_or_show("the cluster file", output, cluster_toml(place)):
        return
    besides = f", and {place.seconds_per_step:.3e} a step besides" if place.seconds_per_step else ""
    screen.print(
        f"{place.seconds_per_sample:.3e} seconds per sample here{besides}; with the speed of codecs in {output}"
    )
    screen.print(f"Next: weft simulate {script} -n {workers or 16} --cluster {output}")
