"""weft run: a training script on real workers, of this machine or of a cluster."""

import json
from dataclasses import replace
from pathlib import Path

from weft.cli.options.run_checkpoints import checkpointed
from weft.cli.options.run_on import HERE, Perform, ground, read_ground
from weft.cli.options.run_options import (
    Arguments,
    Baseline,
    Chaos,
    Checkpoint,
    CheckpointEvery,
    Compress,
    Explain,
    Hosts,
    Json,
    Net,
    On,
    OnLoss,
    OnNan,
    Script,
    Seed,
    Set,
    Share,
    Slow,
    Steps,
    Strategies,
    Transport,
    Workers,
    numbers_of_workers,
    options_of,
    slow_workers,
)
from weft.cli.show.files import check_writable, remove_old, write_or_show
from weft.cli.show.live_run import run_shown
from weft.cli.show.logs import Logs, RunLogs
from weft.cli.show.runs import show_runs
from weft.cli.show.screen import errors, show_left_out
from weft.config.compression import objection
from weft.config.devices import objection as objection_to_devices
from weft.config.network import EmulatedNetwork, read_network
from weft.config.on_loss import STOP
from weft.config.options import Checked, Options, set_options, with_parameters
from weft.config.registry import both, expanded, is_only_of_all, left_out
from weft.config.settings import Settings
from weft.core.errors import ConfigError, WeftError
from weft.data.shares import STATIC
from weft.data.shares import objection as objection_to_share
from weft.engines.ray.launch import RayPlan
from weft.engines.real.job import RealJob, check_survives, spread, survivable
from weft.engines.real.outcome import RealOutcome
from weft.engines.real.session import DEFAULT_STRATEGY
from weft.engines.settings_sources import settings_of
from weft.runtime.connections import SHM, TCP


def run(
    script: Script,
    arguments: Arguments = None,
    workers: Workers = None,
    strategy: Strategies = None,
    transport: Transport = None,
    hosts: Hosts = 1,
    net: Net = None,
    compress: Compress = None,
    share: Share = None,
    slow: Slow = None,
    baseline: Baseline = None,
    seed: Seed = None,
    steps: Steps = None,
    set_: Set = None,
    explain: Explain = False,
    json_file: Json = None,
    on: On = None,
    on_loss: OnLoss = None,
    on_nan: OnNan = None,
    chaos: Chaos = None,
    checkpoint: Checkpoint = None,
    checkpoint_every: CheckpointEvery = None,
) -> None:
    """Run SCRIPT on real workers of this machine or of a cluster."""
    check_writable(json_file)
    fewest, num_workers = numbers_of_workers(workers)
    texts = [*(set_ or ()), *options_of(on_loss, on_nan, chaos, checkpoint, checkpoint_every)]
    said = Settings(_said(strategy), None, compress, num_workers, seed, steps, share, transport, set=_said(texts))
    settings = settings_of(said)
    options, parameters = set_options(settings.set or ())
    job = replace(
        _job(script, settings, options, None if net is None else read_network(*net), hosts),
        arguments=tuple(arguments or ()),
        slow=slow_workers(slow or ()),
        workers_min=fewest or 1,
    )
    jobs, dispensable = _jobs(job, settings.strategy, parameters, baseline)
    jobs = _survivable(jobs, options.run, is_here=on in (None, HERE))
    _check_fewest(jobs, fewest, options.run.on_loss)
    plan = read_ground(on, options.ray, said.set or (), jobs)
    with checkpointed(jobs, settings.checkpoint, said.set or (), is_here=plan is None) as left:
        outcomes = _run_all(left, dispensable, plan, explain, json_file) if left else []
    if outcomes:
        _show(outcomes, json_file, checks_replay=options.run.check_replay)


def _job(
    script: Path, settings: Settings, options: Options, network: EmulatedNetwork | None, num_hosts: int
) -> RealJob:
    """What settings and options say of a run, without what only the command line says."""
    return RealJob(
        script=script,
        num_workers=settings.num_workers,
        collective=options.reduce.collective,
        compress=settings.compress,
        share=settings.share or STATIC,
        transport=settings.transport or (SHM if network is None or num_hosts > 1 else TCP),
        seed=settings.seed or 0,
        steps_max=settings.steps,
        hiccups=options.worker.hiccups,
        global_batch=options.data.global_batch,
        options=options,
        checks_replay=options.run.check_replay,
        on_loss=options.run.on_loss or STOP,
        traces=options.write.trace is not None,
        network=network,
        devices=dict(options.worker.device),
        hosts=spread(settings.num_workers, num_hosts),
    )


def _said(texts: list[str] | None) -> tuple[str, ...] | None:
    return tuple(texts) if texts else None


def _jobs(
    job: RealJob, asked: tuple[str, ...] | None, parameters: dict[str, str], baseline: str | None
) -> tuple[list[RealJob], list[bool]]:
    """One for each strategy that was asked for, and whether only 'all' did so; those that cannot run are named."""
    if parameters and not asked:
        asked = (DEFAULT_STRATEGY,)
    doubts = both(objection(job.compress), objection_to_share(job.sharing), objection_to_devices(job.devices))
    texts = expanded(asked, job.num_workers, num_hosts=job.num_memories, objection=doubts)
    show_left_out(left_out(asked, job.num_workers, num_hosts=job.num_memories, objection=doubts))
    jobs = [job.with_strategy(text and with_parameters(text, parameters)) for text in texts]
    jobs += [] if baseline is None else [job.under(baseline)]
    return jobs, [*(is_only_of_all(text, asked) for text in texts), False]


def _survivable(jobs: list[RealJob], run: Checked, *, is_here: bool) -> list[RealJob]:
    """The jobs, with lost workers replaced where nothing else was said, and with the chaos that was asked for."""
    if run.on_loss is None and is_here:
        jobs = [survivable(job) for job in jobs]
    return jobs if run.chaos is None else [replace(job, chaos=run.chaos) for job in jobs]


def _check_fewest(jobs: list[RealJob], fewest: int | None, on_loss: str | None) -> None:
    """Refuse the MIN of -n MIN..MAX if the first loss ends every run."""
    if fewest is None or fewest == jobs[0].num_workers or any(job.on_loss != STOP for job in jobs):
        return
    asked = f"-n {fewest}..{jobs[0].num_workers}"
    if on_loss == STOP:
        raise ConfigError(
            f"{asked} lets the run go on after a loss, but --on-loss stop ends it.\n"
            f"  Use --on-loss replace or shrink, or -n {jobs[0].num_workers}."
        )
    for job in jobs:
        check_survives(job, asked)
    raise ConfigError(
        f"{asked} lets the run go on after a loss, which --hosts and --on ray do only if asked.\n"
        "  Add --on-loss replace or shrink."
    )


def _show(outcomes: list[RealOutcome], json_file: Path | None, *, checks_replay: bool) -> None:
    rows = [outcome.to_json() for outcome in outcomes]
    show_runs(rows)
    if outcomes[-1].was_stopped:
        errors.print(f"stopped early, as asked, after {rows[-1]['steps']} steps", markup=False)
    if json_file is not None:
        write_or_show("--json", json_file, json.dumps(rows, indent=1) + "\n")
    if checks_replay:
        _show_replays(outcomes)


def _run_all(
    jobs: list[RealJob], dispensable: list[bool], plan: RayPlan | None, explain: bool, json_file: Path | None
) -> list[RealOutcome]:
    """Run one job after another, until somebody has had enough; those that are dispensable may not fit the script."""
    outcomes: list[RealOutcome] = []
    write = jobs[0].options.write
    with (
        Logs(write.trace, write.log, write.tensorboard) as logs,
        ground(plan, jobs, lambda text: errors.print(text, markup=False)) as perform,
    ):
        remove_old(json_file)
        for number, job in enumerate(jobs, 1):
            try:
                with logs.run(
                    job.label,
                    job.num_workers,
                    number=number,
                    of=len(jobs),
                    is_real=True,
                    counts_messages=job.baseline is None,
                ) as log:
                    outcomes.append(_run(job, number, len(jobs), perform, explain, log))
                    log.end(outcomes[-1].to_json(), outcomes[-1].tracks)
            except WeftError as error:
                if outcomes and isinstance(error, ConfigError) and dispensable[number - 1]:
                    errors.print(f"{job.label} is left out: {error}", markup=False)
                    continue
                if outcomes:  # what has been run is not lost because the next one fails
                    _show(outcomes, json_file, checks_replay=False)
                raise
            if outcomes[-1].was_stopped:
                break
    return outcomes


def _run(job: RealJob, number: int, of: int, perform: Perform, explain: bool, log: RunLogs) -> RealOutcome:
    if of > 1 and not errors.is_terminal:
        errors.print(f"{job.label} ({number} of {of})", markup=False)
    return run_shown(job, job.label, perform, explain, log.watching)


def _show_replays(outcomes: list[RealOutcome]) -> None:
    for outcome in outcomes:
        for line in outcome.replay:
            errors.print(line, markup=False)
        if outcome.replay:
            raise ConfigError(f"the run of '{outcome.strategy}' cannot be replayed.")
        errors.print(f"replayed: the peers of '{outcome.strategy}' gave the same answers again", markup=False)
