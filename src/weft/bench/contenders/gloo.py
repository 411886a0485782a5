"""torch.distributed on Gloo: processes that meet on loopback, and its all-reduce as a contender."""

import torch
import torch.distributed as dist

from weft.bench.contenders.sums import Vector, compete, num_elements
from weft.bench.serving import Task, own_task


def meet(task: Task) -> None:
    """The default process group, through a store on the port that the benchmark already listens on."""
    store = dist.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1",
        task.store_port,
        task.num_processes,
        is_master=task.rank == 0,
        master_listen_fd=task.store_fd if task.rank == 0 else None,
    )
    dist.init_process_group("gloo", store=store, rank=task.rank, world_size=task.num_processes)


def main(task: Task) -> None:
    """Sum in place, as DistributedDataParallel does."""
    meet(task)
    tensor = torch.empty(num_elements(task.work))
    vector: Vector = tensor.numpy()

    def reduce() -> Vector:
        dist.all_reduce(tensor)
        return vector

    compete(task, task.rank, vector, reduce)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(own_task())
