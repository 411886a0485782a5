"""What engines say in the environment, as they write it."""

import pytest

from weft.core.errors import ConfigError
from weft.engines.hosts.launch_env import LaunchPlacement, first_host, placement

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "mill",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
KUBERNETES = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}
SRUN = {
    "SLURM_PROCID": "0",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NODELIST": "node[03-05]",
    "SLURM_JOB_ID": "1234567",
    "SLURM_STEP_ID": "1",
}
BATCH = {
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_GTIDS": "0",
    "SLURM_NTASKS": "8",
    "SLURM_JOB_NODELIST": "node[03-05]",
    "SLURM_JOB_ID": "1234567",
}


def test_torchrun_has_a_store_running_and_counts_its_attempts() -> None:
    assert placement(TORCHRUN) == LaunchPlacement(3, 4, "10.0.0.1", 29500, "mill/2", False)


def test_without_an_agent_worker_0_has_the_store() -> None:
    assert placement(KUBERNETES) == LaunchPlacement(0, 2, "job-master-0", 23456, "run/0", True)
    assert placement({**KUBERNETES, "RANK": "1"}) == LaunchPlacement(1, 2, "job-master-0", 23456, "run/0", False)


def test_srun_names_hosts_in_its_own_way_and_has_no_port() -> None:
    assert placement(SRUN) == LaunchPlacement(
        0, 8, "node03", 20000 + (1234567 * 31 + 1) % 10000, "slurm-1234567.1", True
    )
    told = {**SRUN, "MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "4000"}
    assert placement(told) == LaunchPlacement(0, 8, "10.0.0.9", 4000, "slurm-1234567.1", True)


def test_a_job_of_several_parts_must_say_where_rank_0_is() -> None:
    parts = {**SRUN, "SLURM_HET_SIZE": "2", "SLURM_STEP_TASKS_PER_NODE": "1,2"}
    with pytest.raises(ConfigError, match="has 2 parts"):
        placement(parts)
    assert placement({**parts, "MASTER_ADDR": "node04"}) == LaunchPlacement(
        0, 8, "node04", 21578, "slurm-1234567.1", True
    )
    assert placement({**SRUN, "SLURM_HET_SIZE": "1"}) == placement(SRUN)


@pytest.mark.parametrize(
    "environ",
    [{}, {"RANK": "0"}, {**KUBERNETES, "WORLD_SIZE": "1"}, BATCH, {**SRUN, "SLURM_STEP_NUM_TASKS": "1"}],
    ids=["nothing", "only a rank", "one worker", "a batch script without srun", "srun -n 1, or --pty"],
)
def test_who_is_alone_or_put_nowhere_has_no_place(environ: dict[str, str]) -> None:
    assert placement(environ) is None


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0"}, "OMPI_COMM_WORLD_SIZE=2"),
        ({"PMI_SIZE": "4", "PMI_RANK": "0", "MPI_LOCALNRANKS": "2"}, "PMI_SIZE=4, MPI_LOCALNRANKS=2"),
        ({"MV2_COMM_WORLD_SIZE": "4"}, "MV2_COMM_WORLD_SIZE=4"),
        ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-1"}, "PMIX_RANK=1"),
        ({**BATCH, "OMPI_COMM_WORLD_SIZE": "8"}, "OMPI_COMM_WORLD_SIZE=8"),
        ({**KUBERNETES, "WORLD_SIZE": "1", "PMI_SIZE": "2"}, "PMI_SIZE=2"),
    ],
    ids=["Open MPI", "MPICH", "MVAPICH", "PRRTE", "mpiexec in a batch script", "a run of one by each of MPI's"],
)
def test_processes_that_only_mpi_knows_of_are_refused(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        placement(environ)
    assert str(refused.value) == (
        f"MPI has started this process as one of several ({said}), and Weft has no MPI rendezvous yet: each would "
        "train a model of its own.\n"
        "  Start the script with torchrun --nproc-per-node 4 train.py, weft run train.py -n 4, or srun under Slurm "
        "(docs/slurm.md). To train alone in each, unset these variables."
    )


def test_what_mpi_says_of_processes_that_meet_otherwise_or_of_one_alone_is_no_objection() -> None:
    said = {"PMI_SIZE": "8", "PMI_RANK": "0", "PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.1.1"}
    assert placement({**SRUN, **said}) == placement(SRUN), "srun --mpi=pmi2 and --mpi=pmix"
    assert placement({**TORCHRUN, "OMPI_COMM_WORLD_SIZE": "2"}) == placement(TORCHRUN), "a torchrun for each host"
    alone = {"OMPI_COMM_WORLD_SIZE": "1", "PMI_SIZE": "1", "PMI_RANK": "0", "PMIX_RANK": "0", "MPI_LOCALNRANKS": "1"}
    assert placement(alone) is None
    assert placement({**SRUN, **alone, "SLURM_STEP_NUM_TASKS": "1"}) is None


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("node1", "node1"),
        ("node1,node2", "node1"),
        ("n[007,9]", "n007"),
        ("a[1-2]-ib,b", "a1-ib"),
        ("gpu-a[12]", "gpu-a12"),
    ],
)
def test_slurms_lists_of_hosts(names: str, first: str) -> None:
    assert first_host(names) == first


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="rank 4 of 4"):
        placement({**TORCHRUN, "RANK": "4"})
    with pytest.raises(ConfigError, match="RANK is 'three'"):
        placement({**TORCHRUN, "RANK": "three"})
    with pytest.raises(ConfigError, match="names none"):
        placement({**SRUN, "SLURM_STEP_NODELIST": ","})


def test_steps_of_one_slurm_job_and_of_the_next_meet_at_ports_of_their_own() -> None:
    told = [{"SLURM_JOB_ID": job, "SLURM_STEP_ID": step} for job in ("70", "71") for step in ("0", "1", "2")]
    found = [placement({**SRUN, **each}) for each in told]
    assert len({each.port for each in found if each is not None}) == 6
