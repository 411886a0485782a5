"""Decides, before anything starts, where a run writes its checkpoints and from which one it goes on."""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from weft.checkpoints.folder import find_newest, lock, name_of, prepare, put_back, remove_partials, steps_in
from weft.checkpoints.interval import EVERY, CheckpointInterval
from weft.checkpoints.manifest import Manifest, RunFacts, read_manifest
from weft.checkpoints.taking import CheckpointPlan
from weft.core.errors import CheckpointError, ConfigError

MUST_AGREE = {
    "seed": "with --seed {}",
    "global_batch": "with data.global_batch={}",
}


class PlannedCheckpoints(NamedTuple):
    """The plan; what to tell the user; and the lock's descriptor, to be closed when the run has ended."""

    plan: CheckpointPlan
    told: list[str]
    lock: int
    finished: Manifest | None
    """The manifest of the newest checkpoint, if the very same run has finished: there is nothing to do."""

    def close(self) -> None:
        os.close(self.lock)


def plan_checkpoints(folder: Path, facts: RunFacts, every: CheckpointInterval | None = None) -> PlannedCheckpoints:
    """Make and lock the folder, and find the newest complete checkpoint.

    Raises ConfigError if nothing can be written there, or the checkpoint is of another kind of run; CheckpointError if
    there are checkpoints, but none is complete.
    """
    folder = folder.absolute()
    prepare(folder)
    descriptor = lock(folder)
    try:
        put_back(folder)
        found = find_newest(folder)
        if found.manifest is not None:
            _check(folder, found.manifest, facts)
    except BaseException:
        os.close(descriptor)
        raise
    remove_partials(folder)
    plan = CheckpointPlan(str(folder), facts, every or EVERY, None if found.path is None else str(found.path))
    finished = found.manifest if found.manifest is not None and _is_same(found.manifest, facts) else None
    return PlannedCheckpoints(plan, found.passed_over, descriptor, finished)


def _is_same(manifest: Manifest, facts: RunFacts) -> bool:
    return manifest.is_finished and manifest.facts == facts


def nothing_left(folder: str, manifest: Manifest) -> str:
    """What is told of a run that has finished already."""
    more = "" if manifest.facts.steps_max is None else "Use more --steps to go on, or none; "
    return (
        f"the run in '{folder}' has finished ({manifest.place}); there is nothing left to do. "
        f"{more}{'give' if more else 'Give'} another folder to train anew"
    )


def _check(folder: Path, manifest: Manifest, mine: RunFacts) -> None:
    """Refuse what cannot be carried over. The number of workers and their strategy may change; between one worker,
    which reads its data in an order of its own, and several only where an epoch begins."""
    theirs = manifest.facts
    if manifest.is_alone != (mine.num_workers == 1) and not manifest.is_between_epochs:
        enough = "1" if manifest.is_alone else "2 or more"
        raise ConfigError(
            f"the newest checkpoint in '{folder}' is of {_workers(theirs)} within an epoch ({manifest.place}), and "
            f"this run is of {_workers(mine)}: a single worker reads its data in an order of its own.\n"
            f"  Use -n {enough} up to the end of an epoch (--checkpoint-every 1epoch), or give another folder"
            f"{_copy_of_one(folder)}."
        )
    if mine.steps_max is not None and mine.steps_max <= manifest.step and not _is_same(manifest, mine):
        raise ConfigError(
            f"--steps {mine.steps_max} counts from the run's beginning, but the newest checkpoint in '{folder}' is of "
            f"step {manifest.step}.\n  Use more steps, or give another folder."
        )
    for name, words in MUST_AGREE.items():
        before, now = getattr(theirs, name), getattr(mine, name)
        if before != now:
            raise ConfigError(
                f"the checkpoints in '{folder}' are of a run {words.format(before)}, but this one is "
                f"{words.format(now)}.\n  Run it as it was, or give another folder."
            )


def _copy_of_one(folder: Path) -> str:
    """How to go on from an older checkpoint of this folder that was taken between two epochs, if there is one."""
    for step in steps_in(folder):
        with suppress(CheckpointError):
            if read_manifest(folder / name_of(step)).is_between_epochs:
                return f", with a copy of '{name_of(step)}' in it, which was taken between two epochs"
    return ""


def _workers(facts: RunFacts) -> str:
    return "one worker" if facts.num_workers == 1 else f"{facts.num_workers} workers"


def script_digest(script: Path) -> str:
    """A digest by which a script is known again; '' if it cannot be read."""
    try:
        return sha256(script.read_bytes()).hexdigest()
    except OSError:
        return ""
