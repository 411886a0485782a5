"""Where an engine has put this process: what torchrun, Slurm's srun and Kubernetes say in the environment."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from weft.core.errors import ConfigError

TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_JOB_ID")
PARTS = "SLURM_HET_SIZE"
"""How many groups of hosts a heterogeneous job has."""
PORTS = range(20_000, 30_000)
"""From which a step of a Slurm job takes the one of its store, by their numbers."""
STEPS_APART = 31
"""Jobs that follow each other may have so many steps each before two take the same port."""
MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
"""How many processes there are, as Open MPI, MPICH and Intel MPI, MVAPICH, and Hydra for each host say it."""
MPI_RANKS = ("PMIX_RANK", "PMI_RANK")
"""Which of them this is: some launchers (PRRTE's prun) say no more."""


class LaunchPlacement(NamedTuple):
    """This process among all of its run, and the store where they meet."""

    rank: int
    num_workers: int
    host: str
    port: int
    run: str
    """Tells this run, and this attempt at it, from others that use the same store."""
    hosts_store: bool
    """Nobody else has the store running: worker 0 does."""


def placement(environ: Mapping[str, str]) -> LaunchPlacement | None:
    """What the environment says; None for a process that nobody has put anywhere, or that is alone.

    Processes that only MPI knows of are refused: each would train a model of its own.
    """
    if all(environ.get(name) for name in TORCH):
        found = _of_torch(environ)
    elif all(environ.get(name) for name in SLURM):
        found = _of_slurm(environ)
    else:
        _refuse_mpi(environ)
        return None
    if not 0 <= found.rank < found.num_workers:
        raise ConfigError(
            f"the environment says that this is rank {found.rank} of {found.num_workers}.\n"
            "  Ranks count from 0. Look at RANK and WORLD_SIZE, or SLURM_PROCID and SLURM_STEP_NUM_TASKS."
        )
    if found.num_workers > 1:
        return found
    _refuse_mpi(environ)
    return None


def _refuse_mpi(environ: Mapping[str, str]) -> None:
    """Refuse a process that MPI has started among others; srun says the same of a step of 1 task, which is alone."""
    several = [name for name in MPI_SIZES if environ.get(name) and _whole(environ, name) > 1]
    later = [name for name in MPI_RANKS if environ.get(name) and _whole(environ, name) > 0]
    said = [f"{name}={environ[name]}" for name in several + later]
    if said:
        raise ConfigError(
            f"MPI has started this process as one of several ({', '.join(said)}), and Weft does not meet by MPI yet: "
            "each would train a model of its own.\n"
            "  Start the script with torchrun --nproc-per-node 4 train.py, weft run train.py -n 4, or srun under Slurm "
            "(docs/slurm.md). To train alone in each, unset these variables."
        )


def _of_torch(environ: Mapping[str, str]) -> LaunchPlacement:
    rank, num_workers, port = (_whole(environ, name) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    run = f"{environ.get('TORCHELASTIC_RUN_ID', 'run')}/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    has_store = environ.get("TORCHELASTIC_USE_AGENT_STORE", "") == "True"
    return LaunchPlacement(rank, num_workers, environ["MASTER_ADDR"], port, run, rank == 0 and not has_store)


def _of_slurm(environ: Mapping[str, str]) -> LaunchPlacement:
    rank, num_workers, job = (
        _whole(environ, name) for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID")
    )
    step = _whole(environ, "SLURM_STEP_ID") if environ.get("SLURM_STEP_ID") else 0
    if environ.get(PARTS, "1") != "1" and not environ.get("MASTER_ADDR"):
        raise ConfigError(
            f"this Slurm job has {environ[PARTS]} parts ({PARTS}), and Slurm does not say on which host rank 0 is.\n"
            "  Heterogeneous jobs are not supported: start one part, or set MASTER_ADDR to the host of rank 0."
        )
    host = environ.get("MASTER_ADDR") or first_host(environ["SLURM_STEP_NODELIST"])
    port = (
        _whole(environ, "MASTER_PORT") if environ.get("MASTER_PORT") else PORTS[(job * STEPS_APART + step) % len(PORTS)]
    )
    return LaunchPlacement(rank, num_workers, host, port, f"slurm-{job}.{step}", rank == 0)


def first_host(names: str) -> str:
    """The first of a list as Slurm writes it: 'node[03-05,9],gpu1' is node03 and others."""
    match = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", names)
    if match is None:
        raise ConfigError(f"Slurm's list of hosts '{names}' names none.\n  Set MASTER_ADDR to the first host's name.")
    before, number, after = match.groups()
    return f"{before}{number or ''}{after or ''}"


def _whole(environ: Mapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except ValueError as error:
        raise ConfigError(
            f"{name} is '{environ[name]}' in the environment, but wants a whole number.\n"
            "  Start the script with torchrun or srun, or unset it to run alone."
        ) from error
