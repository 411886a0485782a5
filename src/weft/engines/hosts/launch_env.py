"""Reads where a launcher has put this process: environment variables of torchrun, Slurm's srun and Kubernetes.

torchrun and Kubernetes operators set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; srun sets SLURM_PROCID and others.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from weft.core.errors import ConfigError

TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_JOB_ID")
PARTS = "SLURM_HET_SIZE"
"""The variable that says how many components a heterogeneous Slurm job has."""
PORTS = range(20_000, 30_000)
"""A step of a Slurm job takes its store's port from this range, by the numbers of job and step."""
STEPS_APART = 31
"""Ports of consecutive job numbers are this far apart: jobs with up to 31 steps each do not share a port."""
MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
"""Number of processes, in the variables of Open MPI, of MPICH and Intel MPI, of MVAPICH, and (per host) of Hydra."""
MPI_RANKS = ("PMIX_RANK", "PMI_RANK")
"""Rank of this process: the only variables that some launchers set (PRRTE's prun)."""


class LaunchPlacement(NamedTuple):
    """The rank of this process in its run, and the address of the store (TCPStore) where all processes meet."""

    rank: int
    num_workers: int
    host: str
    port: int
    run: str
    """Distinguishes this run, and this attempt at it, from others that use the same store."""
    hosts_store: bool
    """Whether this process, worker 0, serves the store itself, because its launcher does not."""


def placement(environ: Mapping[str, str]) -> LaunchPlacement | None:
    """The placement that `environ` describes; None if no launcher set these variables, or if there is one process only.

    Processes that only MPI's variables describe are refused: each would train a model of its own.
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
    """Refuse a process that MPI started as one of several. srun sets PMI variables, too, even for a single task."""
    several = [name for name in MPI_SIZES if environ.get(name) and _whole(environ, name) > 1]
    later = [name for name in MPI_RANKS if environ.get(name) and _whole(environ, name) > 0]
    said = [f"{name}={environ[name]}" for name in several + later]
    if said:
        raise ConfigError(
            f"MPI has started this process as one of several ({', '.join(said)}), and Weft has no MPI rendezvous yet: "
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
    """The first host of a Slurm hostlist expression: node03 of 'node[03-05,9],gpu1'."""
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
