"""weft compare: which way of training wins, for one script on these machines."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from weft.cli.options.compare_options import (
    Baselines,
    Cluster,
    Codecs,
    Contenders,
    Report,
    Seeds,
    Shares,
    Simulate,
    Target,
)
from weft.cli.options.compare_request import CompareOptions
from weft.cli.options.run_options import (
    Arguments,
    Net,
    NumWorkers,
    ScaleLr,
    Script,
    Set,
    Slow,
    Steps,
    Transport,
    Warmup,
    slow_workers,
)
from weft.cli.show.comparison import show_comparison
from weft.cli.show.files import check_folder, check_writable, written
from weft.cli.show.live_run import run_shown, simulate_shown
from weft.cli.show.progress import progress
from weft.cli.show.screen import errors, screen
from weft.config.extras import has_extra, install_line
from weft.config.registry import ALL, expanded
from weft.config.ways import Way, read_ways
from weft.core.errors import ConfigError, NodeLost, WeftError
from weft.engines.compare.first_look import check_target, read_target, reported_names, simulated_names
from weft.engines.compare.runner import ComparisonRun, Interrupted, Row, Trial
from weft.engines.compare.trials import RealTrials, SimulatedTrials, Trials, refusal
from weft.engines.local.forked_workers import ForkServer
from weft.engines.local.launcher import run_local
from weft.engines.real.kernels import compile_kernels
from weft.observe.records.quantities import human_seconds
from weft.observe.report import write_html, write_png

DEFAULT_WORKERS = 2
USUAL_NAME = "comparison.html"
USUAL = ("allreduce", "allreduce share=proportional", "ssp", "async_gossip", "local_sgd")
"""What is compared unless something else is named."""


def compare(
    script: Script,
    arguments: Arguments = None,
    workers: NumWorkers = None,
    strategy: Contenders = None,
    compress: Codecs = None,
    share: Shares = None,
    baseline: Baselines = None,
    target: Target = None,
    seeds: Seeds = 1,
    report: Report = Path(USUAL_NAME),
    simulate: Simulate = False,
    cluster: Cluster = None,
    slow: Slow = None,
    transport: Transport = None,
    net: Net = None,
    scale_lr: ScaleLr = False,
    warmup: Warmup = 0,
    steps: Steps = None,
    set_: Set = None,
) -> None:
    """Train SCRIPT in several ways on the same seeds, samples and learning rates, and report who wins and why.

    An interrupted comparison goes on where it was when the same command is given again; so does one with more
    contenders or more seeds.
    """
    asked = CompareOptions(
        script,
        tuple(arguments or ()),
        DEFAULT_WORKERS if workers is None else workers,
        slow_workers(slow or ()),
        transport,
        tuple(net or ()),
        scale_lr,
        warmup,
        steps,
        tuple(set_ or ()),
        (cluster or "rack") if simulate else None,
    )
    if cluster is not None and not simulate:
        raise ConfigError("--cluster is what --simulate simulates.\n  Add --simulate, or leave it out.")
    files = Files(report)
    trials = asked.trials()
    ways = _ways(trials, asked.texts(strategy or USUAL), compress or [], share or [], baseline or [])
    running = ComparisonRun(asked.setup(seeds, None if target is None else read_target(target)), ways, files.json)
    try:
        _compared(running, trials, ways)
    except (Interrupted, KeyboardInterrupt):
        if running.has_runs:
            _keep_for_later(running, files)
        raise KeyboardInterrupt from None
    _conclude(running, files)


class Files:
    """Where a comparison is written: a page, a picture and all figures, which differ in their endings."""

    def __init__(self, report: Path) -> None:
        if report.suffix not in ("", ".html"):
            raise ConfigError(
                f"--report '{report}' is not a page.\n  End its name in .html; .png and .json are written beside it."
            )
        if report.is_dir():
            report /= USUAL_NAME
        check_folder(report.parent)
        self.html, self.png, self.json = (report.with_suffix(ending) for ending in (".html", ".png", ".json"))
        for path in (self.html, self.png, self.json):
            check_writable(path)


def _ways(
    trials: Trials, strategies: list[str], codecs: list[str], shares: list[str], baselines: list[str]
) -> list[Way]:
    """The contenders, all of which can run; those that only 'all' named may turn out not to."""
    if isinstance(trials, SimulatedTrials) and baselines:
        _tell(f"{', '.join(baselines)} cannot be simulated and is left out")
        baselines = []
    by_all = {name for name in expanded((ALL,), trials.common.num_workers) if name} if ALL in strategies else set()
    texts = [text for asked in strategies for text in (sorted(by_all) if asked == ALL else [asked])]
    ways = read_ways(texts, codecs, shares, baselines)
    refused = {way: refusal(trials, way) for way in ways}
    for way, error in refused.items():
        if error is not None and (way.strategy not in by_all or way.strategy in strategies):
            raise error
        if error is not None:
            _tell(f"{way.label} is left out: {str(error).splitlines()[0]}")
    return [way for way in ways if refused[way] is None]


def _compared(running: ComparisonRun, trials: Trials, ways: Sequence[Way]) -> None:
    """Make all runs that are lacking."""
    if running.has_runs:
        _tell(f"going on with the runs in {running.file}")
    if running.moved_to is not None:
        _tell(
            f"{running.file} was of another comparison (script, machine, options or Weft): it is {running.moved_to} now"
        )
    if running.comparison.is_complete:
        return
    try:
        if isinstance(trials, SimulatedTrials):
            _simulated_race(running, trials, ways)
        else:
            _real_race(running, trials, ways)
    except WeftError as error:
        if error.before_join and not (isinstance(error, NodeLost) and error.is_said):
            _tell("the script did not get to weft.join, so no other way is tried")
        raise


def _real_race(running: ComparisonRun, trials: RealTrials, ways: Sequence[Way]) -> None:
    with trials.fork_server(ways, _tell) as fork_server:
        if running.target is not None and not running.has_runs:
            with progress("a first look at what the script reports"):
                check_target(running.target, reported_names(trials.common, fork_server.fork, _tell))
        running.run(lambda trial: _real(trials, trial, fork_server))


def _simulated_race(running: ComparisonRun, trials: SimulatedTrials, ways: Sequence[Way]) -> None:
    if running.target is not None:
        with progress("a first look at what the script reports"):
            check_target(running.target, simulated_names(trials.common, _tell))
    for way in ways:
        compile_kernels(way.compress, _tell)
    running.run(lambda trial: _simulated(trials, trial))


def _tell(text: str) -> None:
    errors.print(text, markup=False)


def _titled(trial: Trial) -> str:
    """Which of all runs this is, and about how long the rest will take."""
    left = "" if trial.left_s is None else f", about {human_seconds(trial.left_s)} left in all"
    title = f"{trial} ({trial.number} of {trial.of}{left})"
    if not errors.is_terminal:
        _tell(title)
    return title


def _real(trials: RealTrials, trial: Trial, fork_server: ForkServer) -> Row:
    outcome = run_shown(trials.job(trial.way, trial.seed), _titled(trial), partial(run_local, fork=fork_server.fork))
    if outcome.was_stopped:
        raise Interrupted
    return outcome.to_json()


def _simulated(trials: SimulatedTrials, trial: Trial) -> Row:
    return simulate_shown(trials.job(trial.way, trial.seed), _titled(trial)).to_json()


def _keep_for_later(running: ComparisonRun, files: Files) -> None:
    written("the report", files.html, lambda: write_html(running.comparison, files.html))
    if not _tell_not_kept(running):
        _tell(f"what has been run is in {files.json}: the same command goes on with it")


def _tell_not_kept(running: ComparisonRun) -> bool:
    """Tell of runs that are in no file, if there are any."""
    why = running.not_kept
    if why is not None:
        _tell(f"the runs of {running.file} cannot be written: {why.strerror}; the same command will make them again")
    return why is not None


def _conclude(running: ComparisonRun, files: Files) -> None:
    """Show who won, and write it."""
    comparison = running.comparison
    show_comparison(comparison)
    is_written = not _tell_not_kept(running)
    is_written &= written("the report", files.html, lambda: write_html(comparison, files.html))
    picture = ""
    if has_extra("plot"):
        is_written &= written("the picture", files.png, lambda: write_png(comparison, files.png))
        picture = f"{files.png}, "
    else:
        _tell(f"there is no picture, because matplotlib is not installed: {install_line('plot')}")
    if is_written:
        screen.print(f"report: {files.html} (open it in a browser), {picture}{files.json}", markup=False)
    failed = [contender.label for contender in comparison.contenders if contender.error is not None]
    if len(failed) == len(comparison.contenders):
        raise NodeLost("every contender failed; the report says why.")
