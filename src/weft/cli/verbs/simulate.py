"""weft simulate: a script on many workers, in virtual time."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options.run_options import (
    Arguments,
    Chaos,
    Compress,
    Explain,
    Json,
    Script,
    Set,
    Share,
    Steps,
    Strategies,
    options_of,
)
from weft.cli.show.files import check_writable, write_or_show, written
from weft.cli.show.live_run import simulate_shown
from weft.cli.show.logs import Logs
from weft.cli.show.outcomes import show_outcomes
from weft.cli.show.plot import check_plot, plot_curves
from weft.cli.show.screen import errors, screen, show_left_out
from weft.config.cluster import load_cluster
from weft.config.compression import objection
from weft.config.options import SIMULATE, Options, check_takes, set_options, with_parameters
from weft.config.registry import both, expanded, is_only_of_all, left_out
from weft.config.settings import Settings
from weft.core.errors import ConfigError
from weft.data.shares import STATIC
from weft.data.shares import objection as objection_to_share
from weft.engines.job_checks import check_job
from weft.engines.real.kernels import compile_kernels
from weft.engines.real.session import DEFAULT_STRATEGY
from weft.engines.settings_sources import settings_of
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.outcome import Outcome


def simulate(
    script: Script,
    arguments: Arguments = None,
    workers: Annotated[
        int | None, typer.Option("-n", "--workers", help="How many workers; default: those of the cluster.")
    ] = None,
    strategy: Strategies = None,
    cluster: Annotated[
        str | None, typer.Option(help="rack, cloud, edge, or a file ending in .toml.", show_default="rack")
    ] = None,
    compress: Compress = None,
    share: Share = None,
    seed: Annotated[int | None, typer.Option(help="The same seed repeats the same run.", show_default="0")] = None,
    steps: Steps = None,
    explain: Explain = False,
    dry: Annotated[bool, typer.Option("--dry", help="Without tensors: times and messages only.")] = False,
    chaos: Chaos = None,
    plot: Annotated[Path | None, typer.Option(help="Draw loss against virtual time into this .png.")] = None,
    json_file: Json = None,
    set_: Set = None,
) -> None:
    """Run SCRIPT on simulated workers: gradients are real, time is virtual."""
    said = (*(set_ or ()), *options_of(None, None, chaos, None, None))
    check_takes(SIMULATE, said)
    names = tuple(strategy) if strategy else None
    settings = settings_of(Settings(names, cluster, compress, workers, seed, steps, share, set=said or None))
    options, parameters = set_options(settings.set or ())
    asked = (DEFAULT_STRATEGY,) if parameters and not settings.strategy else settings.strategy
    _check(options, dry, json_file, plot)
    place = load_cluster(settings.cluster or "rack")
    num_workers = place.num_workers if settings.workers is None else settings.workers
    check_job(script, num_workers, settings.seed or 0, settings.steps)
    sharing = STATIC if num_workers == 1 else settings.share or STATIC
    objected = both(objection(settings.compress), objection_to_share(sharing))
    num_hosts = place.num_hosts(num_workers)
    jobs = [
        SimulatedJob(
            script=script,
            arguments=tuple(arguments or ()),
            cluster=place,
            num_workers=num_workers,
            strategy=text and with_parameters(text, parameters),
            collective=options.reduce.collective,
            seed=settings.seed or 0,
            steps_max=settings.steps,
            compress=settings.compress,
            share=settings.share or STATIC,
            traces=options.write.trace is not None,
            chaos=options.run.chaos,
        )
        for text in expanded(asked, num_workers, num_hosts, objection=objected)
    ]
    show_left_out(left_out(asked, num_workers, num_hosts, objection=objected))
    compile_kernels(settings.compress, lambda text: errors.print(text, markup=False))
    write = options.write
    with _shown(json_file, plot) as outcomes, Logs(write.trace, write.log, write.tensorboard) as logs:
        _run_all(jobs, asked, dry, explain, logs, outcomes)


def _check(options: Options, dry: bool, json_file: Path | None, plot: Path | None) -> None:
    """Refuse what cannot be done, or written, before anything is run."""
    if options.run.chaos is not None and not dry:
        raise ConfigError(
            "--chaos is simulated without tensors only: newcomers take over no numbers in virtual time.\n  Add --dry."
        )
    for path in (plot, json_file):
        check_writable(path)
    if plot is not None:
        check_plot(plot, dry)


@contextmanager
def _shown(json_file: Path | None, plot: Path | None) -> Iterator[list[Outcome]]:
    """A list whose outcomes are shown at the end, also if a run after them fails or is interrupted."""
    outcomes: list[Outcome] = []
    try:
        yield outcomes
    finally:
        if outcomes:
            _show(outcomes, json_file, plot)


def _show(outcomes: list[Outcome], json_file: Path | None, plot: Path | None) -> None:
    show_outcomes(outcomes)
    if json_file is not None:
        rows = [outcome.to_json() for outcome in outcomes]
        write_or_show("--json", json_file, json.dumps(rows, indent=1) + "\n")
    if plot is not None and written("--plot", plot, lambda: plot_curves(outcomes, plot)):
        screen.print(f"picture: {plot}")


def _run_all(
    jobs: list[SimulatedJob],
    strategies: tuple[str, ...] | None,
    dry: bool,
    explain: bool,
    logs: Logs,
    outcomes: list[Outcome],
) -> None:
    """Run one job after another into `outcomes`; one that only 'all' asked for may turn out not to fit the script."""
    for number, job in enumerate(jobs, 1):
        if len(jobs) > 1 and not errors.is_terminal:
            errors.print(f"{job.label(None)} ({number} of {len(jobs)})", markup=False)
        try:
            with logs.run(job.label(None), job.num_workers, number, len(jobs), is_real=False) as log:
                outcomes.append(simulate_shown(job, job.label(None), dry, explain, log.watching_simulated))
                log.end(outcomes[-1].to_json(), outcomes[-1].facts.tracks)
        except ConfigError as error:
            if not outcomes or not is_only_of_all(job.name_of(None), strategies):
                raise
            errors.print(f"{job.label(None)} is left out: {error}", markup=False)
