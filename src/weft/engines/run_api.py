"""`weft.run` and `weft.simulate`: runs from Python and notebooks, of a script or of a function."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from weft.config.cluster import load_cluster
from weft.config.options import PYTHON, check_takes, set_options
from weft.config.settings import Settings
from weft.core.errors import ConfigError, NodeLost
from weft.core.seat import current
from weft.data.shares import STATIC
from weft.engines.functions.script import write_script
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.real.job import RealJob, spread
from weft.engines.real.kernels import compile_kernels
from weft.engines.real.observer import Observer
from weft.engines.run_outcome import RunOutcome
from weft.engines.settings_sources import settings_of
from weft.engines.simulated import runner, world_run
from weft.engines.simulated.job import SimulatedJob
from weft.runtime.connections import SHM

COLLECTIVE = "reduce.collective"
Target = str | PathLike[str] | Callable[..., Any]
"""The path of a script, or a function that holds the training loop, weft.join included."""


def run(
    target: Target,
    *,
    arguments: Sequence[Any] = (),
    workers: int | None = None,
    strategy: str | None = None,
    compress: str | None = None,
    transport: str | None = None,
    collective: str | None = None,
    share: str | None = None,
    hosts: int = 1,
    seed: int | None = None,
    steps: int | None = None,
    global_batch: int | None = None,
    slow: Mapping[int, float] | None = None,
    baseline: str | None = None,
    set: Mapping[str, object] | None = None,
    show: Callable[[str], None] | None = print,
) -> RunOutcome:
    """Train on real workers of this machine, as `weft run` does with options of the same names.

    `target` is the path of a script, with `arguments` for its command line, or a function, with `arguments` to call it
    with; workers are new processes that get the function's source and what it uses by name. `set` has options such as
    {"worker.threads": 2}; `collective` and `global_batch` are short for two of them. What workers print and report goes
    to `show`, line by line; None shows nothing. Ctrl-C ends the run in order. If the run fails, a WeftError is raised:
    NodeLost, with the worker's traceback, if its script has failed.
    """
    _check_caller("weft.run")
    chosen = _texts({COLLECTIVE: collective, "data.global_batch": global_batch, **(set or {})})
    check_takes(PYTHON, chosen or ())
    settings = settings_of(Settings(_said(strategy), None, compress, workers, seed, steps, share, transport, chosen))
    options, parameters = set_options(settings.set or ())
    if parameters:
        raise ConfigError("set={'strategy...': ...} is for the command line.\n  Write strategy='ssp(staleness=3)'.")
    with _script(target, arguments) as (script, words):
        job = RealJob(
            script=script,
            arguments=words,
            num_workers=settings.num_workers,
            strategy=_one(settings),
            collective=options.reduce.collective,
            compress=settings.compress,
            share=settings.share or STATIC,
            transport=settings.transport or SHM,
            seed=settings.seed or 0,
            steps_max=settings.steps,
            slow=dict(slow or {}),
            hiccups=options.worker.hiccups,
            global_batch=options.data.global_batch,
            devices=dict(options.worker.device),
            options=options,
            hosts=spread(settings.num_workers, hosts),
        )
        job = job if baseline is None else job.under(baseline)
        say = show or (lambda text: None)
        with fork_server_of(job, say) as fork_server, _told_whole():
            outcome = run_local(job, _observer(say), fork_server.fork)
    saved = [path for path in map(Path, outcome.saved) if path.is_file()]
    return RunOutcome.of(outcome.to_json(), was_stopped=outcome.was_stopped, saved=saved)


def simulate(
    target: Target,
    *,
    arguments: Sequence[Any] = (),
    workers: int | None = None,
    strategy: str | None = None,
    cluster: str | None = None,
    compress: str | None = None,
    collective: str | None = None,
    share: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    dry: bool = False,
    show: Callable[[str], None] | None = print,
) -> RunOutcome:
    """Train on simulated workers, in virtual time, as `weft simulate` does with options of the same names.

    `target`, `arguments` and `show` are as for `weft.run`, but only worker 0's output is shown.
    """
    _check_caller("weft.simulate")
    settings = settings_of(
        Settings(_said(strategy), cluster, compress, workers, seed, steps, share, set=_texts({COLLECTIVE: collective}))
    )
    options, _ = set_options(settings.set or ())
    loaded = load_cluster(settings.cluster or "rack")
    num_workers = loaded.num_workers if settings.workers is None else settings.workers
    say = show or (lambda text: None)
    with _script(target, arguments) as (script, words):
        job = SimulatedJob(
            script=script,
            arguments=words,
            cluster=loaded,
            num_workers=num_workers,
            strategy=_one(settings),
            collective=options.reduce.collective,
            seed=settings.seed or 0,
            steps_max=settings.steps,
            compress=settings.compress,
            share=settings.share or STATIC,
        )
        compile_kernels(settings.compress, say)
        with _told_whole():
            outcome = (runner.simulate_dry if dry else runner.simulate)(
                job, world_run.SimulationObserver(say, on_tell=say)
            )
    return RunOutcome.of(outcome.to_json())


def _check_caller(name: str) -> None:
    if current() is not None:
        raise ConfigError(
            f"{name} was called by a worker of a run.\n  Call it from a notebook or another script, or guard it by "
            "if __name__ == '__main__'."
        )
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError(f"{name} was called by a thread, but it answers Ctrl-C.\n  Call it in the main thread.")


def _said(strategy: str | None) -> tuple[str, ...] | None:
    if not isinstance(strategy, str | None):
        raise ConfigError(
            f"strategy={strategy!r} is no text.\n  Write e.g. strategy='ssp(staleness=3)', or give it to weft.join."
        )
    return None if strategy is None else (strategy,)


def _texts(options: Mapping[str, object]) -> tuple[str, ...] | None:
    """Options in the form that --set takes; those that are None are left out."""
    return tuple(f"{name}={value}" for name, value in options.items() if value is not None) or None


def _one(settings: Settings) -> str | None:
    """The strategy that was asked for, or None; raises ConfigError for several, since a run has one."""
    if settings.strategy is not None and len(settings.strategy) > 1:
        names = ", ".join(settings.strategy)
        raise ConfigError(f"'{names}' are several strategies, but this run has one.\n  Name one.")
    return settings.strategy[0] if settings.strategy else None


@contextmanager
def _script(target: Target, arguments: Sequence[Any]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A context with the script to run and its command line; a function's script exists only within it."""
    if isinstance(target, str | PathLike):
        yield Path(target), tuple(map(str, arguments))
        return
    with TemporaryDirectory(prefix="weft-") as folder:
        yield write_script(target, arguments, Path(folder)), ()


@contextmanager
def _told_whole() -> Iterator[None]:
    """A context that adds the script's traceback to the text of NodeLost; the command line prints it separately."""
    try:
        yield
    except NodeLost as error:
        if error.traceback:
            error.args = (f"{error}\n{error.traceback}",)
        raise


def _observer(say: Callable[[str], None]) -> Observer:
    def on_report(epoch: int, numbers: Mapping[str, float]) -> None:
        say("  ".join([f"epoch {epoch + 1}", *(f"{name} {value:.4f}" for name, value in numbers.items())]))

    return Observer(
        on_line=lambda rank, text, is_error: say(f"worker {rank} | {text.rstrip()}"),
        on_report=on_report,
        on_tell=say,
        on_blame=lambda blame: say(str(blame)),
    )
