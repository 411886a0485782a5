"""DistributedDataParallel over emulated links: Weft starts it, since it makes the network namespaces of its processes.

`python -m weft.bench.netted_ddp SCRIPT NUM_PROCESSES LINKS TASK`. `weft run --baseline ddp` would run a strategy first.
"""

import sys
from pathlib import Path

from weft.config.network import read_network
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.runtime.connections import TCP


def baseline_job(script: str, num_processes: str, links: str, task: str) -> RealJob:
    """The run that these words ask for."""
    network = read_network(links)
    job = RealJob(
        script=Path(script), arguments=(task,), num_workers=int(num_processes), transport=TCP, network=network
    )
    return job.under("ddp")


def main() -> None:
    job = baseline_job(*sys.argv[1:])
    with fork_server_of(job) as fork_server:
        run_local(job, Observer(), fork_server.fork)


if __name__ == "__main__":
    main()
