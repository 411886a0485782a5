"""weft doctor: whether real workers can run on this machine, or across the hosts of a cluster, and what to fix."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options.run_on import is_on_ray
from weft.cli.options.run_options import On
from weft.cli.show.cluster_findings import show_checkup
from weft.cli.show.files import check_writable
from weft.cli.show.findings import show_findings
from weft.cli.show.progress import progress
from weft.cli.show.screen import screen
from weft.core.errors import ConfigError
from weft.engines.diagnose.cluster.participant import take_part
from weft.engines.diagnose.machine import CHECKS, Finding, examine
from weft.engines.ray.diagnosis import examine_cluster


def doctor(
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Check the hosts on which torchrun or srun starts this, or Ray's, every pair."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write what was measured of the cluster to this .toml file.")] = None,
    workers_per_host: Annotated[
        int | None, typer.Option(help="For the file: how many workers each host will have.", min=1)
    ] = None,
    script: Annotated[Path | None, typer.Option(help="A script that must be the same on every host.")] = None,
    on: On = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Of the Ray cluster, or auto.", show_default="RAY_ADDRESS, if it is set"
        ),
    ] = None,
) -> None:
    """Check this machine: cores, memory, shared memory, ports, limits, torch. Or the hosts of a cluster."""
    if cluster:
        check_writable(out)
        with ExitStack() as stack:
            if os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0":  # one says it for all
                stack.enter_context(progress("waiting for all hosts, and measuring between them"))
            is_ray = is_on_ray(on, [] if address is None else ["--address"])
            checkup = examine_cluster(address, script) if is_ray else take_part(os.environ, script)
        if checkup is not None:
            show_checkup(checkup, out, workers_per_host)
        return
    others = {
        "--out": out,
        "--workers-per-host": workers_per_host,
        "--script": script,
        "--on": on,
        "--address": address,
    }
    for name, value in others.items():
        if value is not None:
            raise ConfigError(f"{name} is for a check-up of a cluster.\n  Add --cluster, or leave it out.")
    findings = examine(CHECKS)
    show_findings(findings)
    screen.print(in_words(findings))
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(1)


def in_words(findings: list[Finding]) -> str:
    """What the findings amount to."""
    bad, warned = ([f.name for f in findings if f.verdict == verdict] for verdict in ("bad", "warn"))
    if bad:
        return f"Real workers will not run here before this is fixed: {', '.join(bad)}."
    if warned:
        return f"Real workers can run here; worth a look: {', '.join(warned)}."
    return "Real workers can run here."
