"""One run on the screen while it goes on: a real one under the live view, a simulated one under a progress bar.

Where there is no terminal, both say in a plain line every few seconds how far they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from weft.cli.options.run_on import Perform
from weft.cli.show.explanation import explanation_lines
from weft.cli.show.live_view import LiveView
from weft.cli.show.progress import plain_progress
from weft.cli.show.screen import errors, screen
from weft.cli.show.streams import a_run_starts
from weft.engines.explanation import Explanation
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.engines.simulated import runner
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.outcome import Outcome
from weft.engines.simulated.world_run import SimulationObserver
from weft.observe.records.quantities import human_seconds
from weft.sim.facts import Facts


def run_shown(
    job: RealJob,
    title: str,
    perform: Perform,
    explain: bool = False,
    watching: Callable[[Observer], Observer] = lambda observer: observer,
) -> RealOutcome:
    """Run a job on real workers under a live view; others may be `watching` besides."""
    with watched(job.num_workers, title, explain) as observer:
        return perform(job, watching(observer))


@contextmanager
def watched(num_workers: int, title: str, explain: bool = False) -> Iterator[Observer]:
    """A live view for as long as this lasts, as a run's watcher."""
    a_run_starts()
    with LiveView(num_workers, title) as view:

        def on_explain(explanation: Explanation) -> None:
            view.begin()  # all have joined
            if explain:
                view.show("\n".join(explanation_lines(explanation)))

        observer = Observer(
            on_status=view.update,
            on_line=view.line,
            on_report=view.report,
            on_tell=view.tell,
            on_turn=view.tick,
            on_explain=on_explain,
        )
        observer.on_blame, observer.on_slow = view.blame, view.slow
        observer.on_lost, observer.on_replaced = view.lose, view.welcome
        yield observer


class SimulatedProgress:
    """How far a simulation is, every so many steps: `say` is told in words, and how much of how much that is.

    That is in samples if the script has said of how many, because a script may make several steps for a batch, or
    none. The words have all steps only where there is one for each batch, else the share of samples.
    """

    def __init__(self, say: Callable[[str, float, float | None], None], every: int = 16) -> None:
        self._say = say
        self._every = every
        self._total: int | None = None
        self._done, self._now_s, self._of = 0, 0.0, ""

    def plan(self, total: int) -> None:
        self._total = total

    def step(self, facts: Facts, now_s: float) -> None:
        self._done, self._now_s = facts.num_steps, now_s
        done, planned, total = facts.num_steps, facts.samples_planned, self._total
        self._of = "" if total is None else f" of {total:,}"
        words = f"{done:,}{self._of} steps"
        if planned and total and abs(done - total * facts.samples / planned) > facts.num_workers:
            share = f"{100 * facts.samples / planned:.0f} %"
            words, self._of = f"{done:,} steps, {share}", f" ({share})"
        if done % self._every == 0:
            far = (facts.samples, planned) if planned else (done, total)
            self._say(f"{words}, {human_seconds(now_s)} virtual", *far)

    def reached(self) -> str:
        """Where an interrupted run was."""
        if not self._done:
            return "interrupted before its first step"
        where = f"interrupted at step {self._done:,}{self._of} of all workers"
        return f"{where}, after {human_seconds(self._now_s)} virtual; nothing of it is kept"


@contextmanager
def simulated_progress(title: str) -> Iterator[SimulatedProgress]:
    """A bar for as long as this lasts, or plain lines."""
    if not errors.is_terminal:
        with plain_progress(f"{title}: starting the script") as tell:
            yield SimulatedProgress(lambda text, done, total: tell(f"{title}: {text}"))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task(title, total=None, state="joining")
        yield SimulatedProgress(
            lambda text, done, total: progress.update(task, completed=done, total=total, state=text)
        )


def simulate_shown(
    job: SimulatedJob,
    title: str,
    dry: bool = False,
    explain: bool = False,
    watching: Callable[[SimulationObserver], SimulationObserver] = lambda observer: observer,
) -> Outcome:
    """Run a job on simulated workers under a progress bar; others may be `watching` besides."""
    a_run_starts()
    with simulated_progress(title) as bar:

        def show_line(line: str) -> None:
            errors.print(f"worker 0: {line}", markup=False)

        def on_explain(explanation: Explanation) -> None:
            if explain:
                screen.print("\n".join(explanation_lines(explanation)), markup=False)

        def tell(text: str) -> None:
            errors.print(text, markup=False)

        observer = SimulationObserver(show_line, bar.step, bar.plan, on_explain, tell)
        try:
            outcome = (runner.simulate_dry if dry else runner.simulate)(job, watching(observer))
        except KeyboardInterrupt:
            tell(f"{title}: {bar.reached()}")
            raise
    outcome.replicas.clear()  # the next run needs their memory
    return outcome
