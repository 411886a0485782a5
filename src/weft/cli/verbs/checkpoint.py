"""weft checkpoint show: what is in the newest checkpoint of a folder."""

from pathlib import Path
from typing import Annotated

import typer

from weft.checkpoints.folder import Found, check, find_newest, steps_in
from weft.checkpoints.forms import Form, Plain, TableForm
from weft.checkpoints.manifest import MANIFEST, Manifest
from weft.cli.show.screen import screen
from weft.core.errors import ConfigError

app = typer.Typer(help="Checkpoints of runs.", no_args_is_help=True)


@app.callback()
def checkpoint() -> None:
    """Checkpoints of runs."""


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A folder of checkpoints, or one of the checkpoints in it.")],
) -> None:
    """Print what is in the newest complete checkpoint; newer ones that are not complete are named."""
    if not folder.is_dir():
        raise ConfigError(f"'{folder}' is no folder.\n  Give the one that --checkpoint was given.")
    found = Found(folder, check(folder), []) if (folder / MANIFEST).exists() else find_newest(folder)
    if found.path is None or found.manifest is None:
        raise ConfigError(f"there is no checkpoint in '{folder}'.\n  Give a folder that a run wrote checkpoints into.")
    for line in [*found.passed_over, *lines(found.path, found.manifest)]:
        screen.print(line, markup=False, soft_wrap=True)


def lines(path: Path, manifest: Manifest) -> list[str]:
    """What is told of a complete checkpoint."""
    facts, versions = manifest.facts, ", ".join(f"{name} {text}" for name, text in manifest.versions.items())
    others = [step for step in steps_in(path.parent) if step != manifest.step]
    told = [
        f"{path} is complete{'; its run has finished' if manifest.is_finished else ''}",
        f"  at         {manifest.place}",
        f"  strategy   {facts.strategy}",
        f"  workers    {facts.num_workers}",
        f"  seed       {facts.seed}",
        f"  versions   {versions}",
        f"  kept       {', '.join(kept(manifest.workers[0].state)) or 'nothing besides the model and its optimizers'}",
        f"  size       {manifest.num_bytes:,} bytes",
        f"  others     {', '.join(f'step {step}' for step in others) or 'none'}",
        "  tensors",
    ]
    for part in manifest.workers:
        told += [f"    {entry}" for entry in part.file.tensors]
    return told


def kept(state: Form) -> list[str]:
    """The names of objects that the script kept."""
    table = next(
        (value for key, value in state.items if key == Plain("kept")) if isinstance(state, TableForm) else iter(()),
        None,
    )
    pairs = table.items if isinstance(table, TableForm) else []
    return [str(key.value) for key, _ in pairs if isinstance(key, Plain)]
