"""A workload's loop, trained together in one of several ways."""

import socket

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from weft.bench.contenders import training
from weft.bench.contenders.training import TOGETHER, main
from weft.bench.contenders.workloads import Workload, workload
from weft.bench.serving import Task


def stepped(contender: str, monkeypatch: pytest.MonkeyPatch) -> Workload:
    """The CNN after one step as this contender."""
    made: list[Workload] = []

    def made_workload(name: str) -> Workload:
        made.append(workload(name))
        return made[0]

    listener = socket.create_server(("127.0.0.1", 0))
    port, fd = listener.getsockname()[1], listener.detach()
    monkeypatch.setattr(training, "workload", made_workload)
    monkeypatch.setattr(training, "serve", lambda task, step: step())
    main(Task("nowhere", contender, "cnn", 1, rank=0, store_port=port, store_fd=fd))
    if dist.is_initialized():
        dist.destroy_process_group()
    else:
        socket.socket(fileno=fd).close()
    return made[0]


@pytest.mark.parametrize("contender", TOGETHER)
def test_alone_every_contender_makes_the_same_step(contender: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = workload("cnn")
    bare.steps()()
    trained = stepped(contender, monkeypatch)
    assert all(torch.equal(a, b) for a, b in zip(trained.model.parameters(), bare.model.parameters()))


@pytest.mark.parametrize(("contender", "has_views"), [("ddp", False), ("ddp-view", True)])
def test_gradients_of_torch_are_views_of_its_buckets_only_when_asked(
    contender: str, has_views: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = stepped(contender, monkeypatch).model
    assert isinstance(model, DistributedDataParallel)
    assert model.gradient_as_bucket_view is has_views
