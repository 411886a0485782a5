"""torch.distributed on Gloo; its all-reduce between processes is tested with the benchmark."""

import socket

import torch.distributed as dist

from weft.bench.contenders.gloo import meet
from weft.bench.serving import Task


def test_processes_meet_on_the_port_that_is_already_listened_on() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    meet(Task("nowhere", "gloo", "64KiB", 1, rank=0, store_port=port, store_fd=listener.detach()))
    assert (dist.get_backend(), dist.get_rank(), dist.get_world_size()) == ("gloo", 0, 1)
    dist.destroy_process_group()
