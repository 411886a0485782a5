"""torchft's contender in `weft bench recovery`: its lighthouse, and replicas of one process, as in its DDP example.

    python -m weft.bench.contenders.recovery_torchft TASK               the lighthouse, and a loop that starts replicas
    python -m weft.bench.contenders.recovery_torchft TASK RANK ADDRESS  one replica, until it has made the last step

torchft starts no processes: a replica that dies is started anew by the loop here. All timeouts are those of its example
and of its lighthouse's documentation.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchft import DistributedDataParallel, DistributedSampler, Manager, Optimizer, ProcessGroupGloo
from torchft.coordination import LighthouseServer

from weft.bench.contenders.recovery_course import accuracy_of, load_images, model_and_optimizer
from weft.bench.step_log import RecoveryTask, StepLog, own_recovery_task
from weft.interpreter import python_module

JOIN_MS, TICK_MS = 10_000, 100
REDUCE_S, MANAGER_S = 5, 30
CHECK_S = 0.05


def keep_running(num_replicas: int, start: Callable[[int], subprocess.Popen[bytes]]) -> None:
    """Start all replicas, and those that die anew, until each has ended of itself."""
    replicas = [start(rank) for rank in range(num_replicas)]
    while any(replica.poll() != 0 for replica in replicas):
        for rank, replica in enumerate(replicas):
            if replica.poll() not in (None, 0):
                replicas[rank] = start(rank)
        time.sleep(CHECK_S)


def supervise(task: RecoveryTask) -> None:
    """Run the lighthouse and all replicas."""
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=JOIN_MS, quorum_tick_ms=TICK_MS)

    def start(rank: int) -> subprocess.Popen[bytes]:
        arguments = [task.text(), str(rank), lighthouse.address()]
        return subprocess.Popen(python_module("weft.bench.contenders.recovery_torchft", arguments))

    keep_running(task.num_workers, start)
    lighthouse.shutdown()


def endless(loader: "DataLoader[tuple[Tensor, ...]]", sampler: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """This replica's batches, epoch after epoch; one that is started anew begins with the first."""
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def replicate(task: RecoveryTask, rank: int, lighthouse: str) -> None:
    """Train until the benchmark has seen enough; then replica 0 scores the trained model."""
    x, y, x_test, y_test = load_images(task.data)
    model, plain = model_and_optimizer(task)
    data = TensorDataset(x, y)
    sampler = DistributedSampler(
        data, replica_rank=rank, num_replica_groups=task.num_workers, group_rank=0, num_replicas=1, seed=task.seed
    )
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]

    def take(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        plain.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=REDUCE_S)),
        min_replica_size=1,
        load_state_dict=take,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": plain.state_dict()},
        replica_id=f"replica_{rank}",
        timeout=timedelta(seconds=MANAGER_S),
        lighthouse_addr=lighthouse,
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        hostname="127.0.0.1",
    )
    together = DistributedDataParallel(manager, model)
    optimizer = Optimizer(manager, plain)
    log = StepLog(task.folder, rank)
    for images, labels in endless(DataLoader(data, task.batch_size, sampler=sampler), sampler):
        log.began(len(labels))
        optimizer.zero_grad()
        nn.functional.cross_entropy(together(images), labels).backward()  # type: ignore[no-untyped-call]
        # a replica that is still taking over the others' state adds nothing to their step
        done, has_part = manager.current_step(), manager.is_participating()
        optimizer.step()
        if manager.current_step() > done and has_part and log.committed(manager.current_step()):
            break
    if rank == 0:
        log.scored(accuracy_of(model, x_test, y_test))
    manager.shutdown(wait=False)


if __name__ == "__main__":
    own = own_recovery_task()
    if len(sys.argv) > 2:
        replicate(own, int(sys.argv[2]), sys.argv[3])
    else:
        supervise(own)
