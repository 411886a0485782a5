"""Runs of which workers are killed while the others go on: lets the kills happen, and looks whether all was kept."""

import faulthandler
import json
import os
import re
import select
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from faults import SHM, TCP
from soak_launch import WRITTEN, start_launcher
from soak_leftovers import LOOK_S, leftovers, marked, traces
from soak_samples import miscounted
from support.processes.real import fork_from_here
from survived_kills import END, NUM_WORKERS, START, Kill, KilledRun, has_newcomers
from survived_script import CHECKPOINT_STEPS

from weft.checkpoints.folder import find_newest
from weft.checkpoints.interval import CheckpointInterval
from weft.checkpoints.manifest import RunFacts
from weft.checkpoints.taking import CheckpointPlan
from weft.config.on_loss import REPLACE
from weft.core.errors import CheckpointError, WeftError
from weft.engines.local.forked_workers import Process
from weft.engines.local.launcher import run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.engines.real.replacement import CAME_IN

HANG_S = 10.0
"""A run hangs if for so long no process of it has logged anything."""
SCRIPT = Path(__file__).with_name("survived_script.py")
OUTCOME, CHECKPOINTS = "outcome.json", "checkpoints"
NAMED = re.compile(r"worker (\d+) (is lost|is started again|could not be replaced).*killed by signal 9", re.DOTALL)


@dataclass
class Survived:
    """What came of one run."""

    run: KilledRun
    took_s: float = 0.0
    missed: list[str] = field(default_factory=list)
    text: str = ""


def launch(wanted: KilledRun, folder: Path) -> int:
    """In a process of its own: run the script to its end; the exit code."""
    faulthandler.register(signal.SIGUSR1)
    job = RealJob(
        script=SCRIPT,
        arguments=(wanted.form, wanted.on_loss, *(kill.argument for kill in wanted.kills)),
        num_workers=NUM_WORKERS,
        strategy=wanted.strategy,
        transport=TCP if wanted.ground == TCP else SHM,
        hosts=wanted.hosts,
        on_loss=wanted.on_loss,
        checkpoint=_plan(wanted, folder) if wanted.with_checkpoints else None,
    )
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        print(text, flush=True)

    observer = Observer(on_line=lambda rank, text, is_error: print(f"worker {rank} | {text}", flush=True), on_tell=tell)
    try:
        outcome = run_local(job, observer, _forking(wanted))
    except WeftError as error:
        print(getattr(error, "traceback", ""), f"{type(error).__name__}: {error}", sep="\n", flush=True)
        return 1
    (folder / OUTCOME).write_text(json.dumps(_in_short(outcome, told)))
    return 0


def _plan(wanted: KilledRun, folder: Path) -> CheckpointPlan:
    (folder / CHECKPOINTS).mkdir()
    facts = RunFacts(wanted.strategy, NUM_WORKERS, 0)
    return CheckpointPlan(str(folder / CHECKPOINTS), facts, CheckpointInterval(steps=CHECKPOINT_STEPS))


def _in_short(outcome: RealOutcome, told: list[str]) -> dict[str, Any]:
    losses = [(loss.worker, loss.cause, loss.replaced_s is not None) for loss in outcome.losses]
    return {"losses": losses, "num_unused": outcome.num_unused, "told": told}


def _forking(wanted: KilledRun) -> Callable[[int, Sequence[int], Callable[[], None]], list[Process]]:
    """Forks workers; one that is to be killed at its start is killed soon after."""

    def fork(num_workers: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
        processes = fork_from_here(num_workers, shared, check)
        for number, kill in enumerate(wanted.kills if num_workers == NUM_WORKERS else ()):
            if kill.moment == START:
                threading.Timer(kill.late_s, _strike, (number, processes[kill.rank].pid)).start()
        return processes

    return fork


def _strike(number: int, pid: int) -> None:
    Path(f"struck.{number}").write_text(f"{time.monotonic()} {pid}")
    os.kill(pid, signal.SIGKILL)


def survive(wanted: KilledRun) -> Survived:
    """Let the kills of one run happen, and see what came of it."""
    survived, before = Survived(wanted), traces()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began_s = time.monotonic()
        code = _await_end(survived, start_launcher(folder, partial(launch, wanted, folder)), folder)
        survived.took_s = time.monotonic() - began_s
        survived.missed += leftovers(before)
        survived.text = (folder / WRITTEN).read_text(errors="replace")
        survived.missed += [
            f"the kill of {kill} never came"
            for number, kill in enumerate(wanted.kills)
            if not (folder / f"struck.{number}").exists()
        ]
        if code != 0:
            survived.missed.append(f"the run ended with {code}")
        elif not survived.missed:
            survived.missed += wrong_in(wanted, folder)
    return survived


def _await_end(survived: Survived, launcher: int, folder: Path) -> int:
    """Wait until the launcher has ended; its exit code. One that hangs is killed, after all its processes have written
    their stacks."""
    while True:
        pid, status = os.waitpid(launcher, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.time() - max(path.stat().st_mtime for path in [folder, *folder.glob("*.log")]) > HANG_S:
            survived.missed.append(f"hangs: nothing was logged for {HANG_S:g} s")
            for each in marked() - {launcher}:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGUSR1)
            select.select([], [], [], 1.0)
            os.kill(launcher, signal.SIGKILL)
            os.waitpid(launcher, 0)
            return -1
        select.select([], [], [], LOOK_S)


def wrong_in(wanted: KilledRun, folder: Path) -> list[str]:
    """What is wrong with a run that has ended well."""
    outcome = json.loads((folder / OUTCOME).read_text())
    told: list[str] = outcome["told"]
    missed = _names(wanted.kills, told, outcome["losses"])
    if wanted.on_loss == REPLACE and (without := _without_successor(wanted.kills, outcome["losses"])):
        is_told_why = any("lost workers are not replaced: under this strategy" in text for text in told)
        if has_newcomers(wanted.strategy) or not is_told_why:
            missed.append(f"workers {without} were not replaced")
    missed += miscounted(folder, wanted.strategy, outcome["num_unused"])
    if wanted.with_checkpoints:
        try:
            found = find_newest(folder / CHECKPOINTS)
            missed += (
                [] if found.manifest is not None and found.manifest.is_finished else ["there is no last checkpoint"]
            )
        except CheckpointError as error:
            missed.append(str(error))
    return missed


def _names(kills: Sequence[Kill], told: list[str], losses: list[tuple[int, str, bool]]) -> list[str]:
    """Each kill is told once, with its worker and signal, and stands among the losses if its worker took part. A
    newcomer that is ended because another was lost while it came in is a loss, too, but no kill."""
    named = [match for text in told if (match := NAMED.match(text))]
    wanted, found = Counter(kill.rank for kill in kills), Counter(int(match[1]) for match in named)
    lost = Counter(int(match[1]) for match in named if match[2] == "is lost")
    missed = [] if wanted == found else [f"killed were workers {dict(wanted)}, but told of {dict(found)}"]
    if lost != Counter(rank for rank, cause, _ in losses if cause != CAME_IN):
        missed.append(f"lost were workers {dict(lost)}, but the outcome says {losses}")
    return missed


def _without_successor(kills: Sequence[Kill], losses: list[tuple[int, str, bool]]) -> list[int]:
    """Workers whose last loss was not made good, but those that were killed when scripts ended."""
    at_end = {kill.rank for kill in kills if kill.moment == END}
    last = {rank: is_replaced for rank, _, is_replaced in losses}
    return [rank for rank, is_replaced in last.items() if not is_replaced and rank not in at_end]
