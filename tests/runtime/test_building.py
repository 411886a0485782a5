"""What a worker process runs on is built; here, when torch sums for it (test_worker_runtime.py runs what was built)."""

import numpy as np
import pytest
from support.processes.records import job_with

from weft.adapters.array_replica import ArrayReplica
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.core.rules import SGD
from weft.runtime.building import _torch
from weft.runtime.connections import TORCH


@pytest.mark.parametrize(
    ("addresses", "is_trusted", "is_private"),
    [(["10.0.0.1", "10.0.0.2"], False, False), (["10.0.0.1", "10.0.0.2"], True, False),
     (["10.0.0.1", "10.0.0.2"], False, True), ([], False, False)],
)  # fmt: skip
def test_torch_sums_between_hosts_only_where_everybody_is_trusted(
    addresses: list[str], is_trusted: bool, is_private: bool
) -> None:
    job = job_with(
        transport=TORCH,
        bucket_bytes_max=1 << 20,
        outbox_bytes_max=100,
        checks_replay=True,
        addresses=addresses,
        hosts=[0, 1],
        is_private=is_private,
        trusts_network=is_trusted,
    )
    replica = ArrayReplica({"w": np.zeros(3)}, SGD(lr=1.0), None)
    if is_trusted or is_private or not addresses:
        assert _torch(job, strategy_of("allreduce"), replica) is not None
        return
    with pytest.raises(ConfigError) as refused:
        _torch(job, strategy_of("allreduce"), replica)
    assert str(refused.value) == (
        "with --transport torch, gradients would go from host to host unencrypted, to any process that answers.\n"
        "  Use --transport shm (TLS between hosts), or say --set network.trusted=true (WEFT_SET under "
        "torchrun) if nobody else is on it."
    )


def test_torch_has_nothing_to_do_where_reductions_are_spoken_in_messages() -> None:
    job = job_with(transport=TORCH, bucket_bytes_max=1 << 20, outbox_bytes_max=100, checks_replay=True)
    replica = ArrayReplica({"w": np.zeros(3)}, SGD(lr=1.0), None)
    assert _torch(job, strategy_of("allreduce", "ring"), replica) is None
