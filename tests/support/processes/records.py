"""Records of real runs with everything that a test does not speak of filled in."""

from typing import Any

from weft.observe.records.status import Status
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import WorkerJob


def status_with(**told: Any) -> Status:
    """The status of a worker that computes and has done nothing so far, but for what is told."""
    blank = {
        "rank": 0, "time_s": 0.0, "step": 0, "samples": 0.0, "loss": None, "waiting_s": 0.0, "staleness_mean": 0.0,
        "staleness_max": 0.0, "bytes_sent": 0, "num_copies": 0, "refused": 0, "steps_total": None, "doing": "computes",
    }  # fmt: skip
    return Status(**{**blank, **told})


def job_with(**told: Any) -> WorkerJob:
    """The part of worker 0 of two in shared memory, with no descriptor, but for what is told."""
    plain = {
        "rank": 0, "num_workers": 2, "seed": 0, "script": "train.py", "arguments": [], "steps_max": None,
        "global_batch": None, "slow": 1.0, "transport": "shm", "secret": b"", "owns_core": True, "spin_s": 0.0,
        "bucket_bytes_max": 1, "outbox_bytes_max": 1, "checks_replay": False, "baseline": None,
        "descriptors": Descriptors(-1, -1, -1, -1, []),
    }  # fmt: skip
    return WorkerJob(**{**plain, **told})
