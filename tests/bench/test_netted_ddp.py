"""DistributedDataParallel over emulated links: it alone, and no strategy of Weft's before it."""

import json
from pathlib import Path

import pytest

from weft.bench import netted_ddp
from weft.bench.netted_ddp import baseline_job

SCRIPT = """
import json, sys
import torch
import weft
from torch.nn.parallel import DistributedDataParallel

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
worker = weft.join(model, optimizer)
for step in range(3):
    optimizer.zero_grad()
    worker.count(1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
with open(sys.argv[1], "a") as file:
    print(json.dumps([torch.distributed.is_initialized(), torch.distributed.get_backend()]), file=file)
"""


def test_the_job_is_ddp_over_these_links() -> None:
    job = baseline_job(__file__, "2", "1gbit,0.2ms", "task")
    assert (job.baseline, job.num_workers, job.arguments) == ("ddp", 2, ("task",))
    assert job.network is not None
    assert job.network.worst.bytes_per_s == 1e9 / 8


@pytest.mark.root
@pytest.mark.processes
def test_only_ddp_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, told = tmp_path / "train.py", tmp_path / "told.jsonl"
    script.write_text(SCRIPT)
    monkeypatch.setattr("sys.argv", ["netted_ddp", str(script), "2", "1gbit,0.2ms", str(told)])
    netted_ddp.main()
    assert [json.loads(line) for line in told.read_text().splitlines()] == 2 * [[True, "gloo"]]
