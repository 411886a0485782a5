"""A check-up by processes that an engine has started, on namespaces as hosts."""

import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support.network.machines import machines

from weft.config.cluster import load_cluster
from weft.config.network import EmulatedNetwork
from weft.core.errors import ConfigError
from weft.engines.diagnose.cluster.participant import take_part
from weft.engines.real.secret import new_secret

STARTED = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def test_a_process_that_is_alone_is_told_how_to_start_all() -> None:
    with pytest.raises(ConfigError) as refused:
        take_part({}, None)
    assert str(refused.value) == (
        "a cluster is examined from all of its hosts at once, but this process is alone.\n"
        "  On every host: torchrun --nnodes 4 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:29400 "
        "-m weft doctor --cluster"
    )


def test_without_a_secret_nothing_is_started() -> None:
    with pytest.raises(ConfigError, match=r"^hosts prove by a secret that they belong together, and there is none"):
        take_part(STARTED, None)


@pytest.mark.clock
def test_four_hosts_at_100_mbit_and_10_ms_are_found_to_be_that(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weft", "doctor", "--cluster", "--out", "cluster.toml"]
    secret = new_secret().hex()
    with machines(4, EmulatedNetwork(12.5e6, 0.01)) as hosts:
        told: dict[str, Any] = {
            "MASTER_ADDR": hosts.addresses[0],
            "MASTER_PORT": "29500",
            "WORLD_SIZE": "4",
            "WEFT_SECRET": secret,
        }
        ranks = [["env", f"RANK={rank}", *command] for rank in range(4)]
        run = hosts.start(ranks, cwd=tmp_path, **told)
        assert run.end() == [0] * 4, run.text()
    assert "These hosts can train together." in run.text(0)
    assert secret not in run.text()
    shown = [re.findall(r"([0-9.]+) (?:ms|Mbit/s)", line)[:4] for line in run.out[0] if "(weft0)" in line]
    assert len(shown) == 6
    one_way_ms, there, back, _ = (median(map(float, column)) for column in zip(*shown))
    assert one_way_ms == pytest.approx(10, abs=2)
    assert (there, back) == pytest.approx((100, 100), rel=0.1)
    cluster = load_cluster(str(tmp_path / "cluster.toml"))
    assert cluster.between.bandwidth_bytes_per_s == pytest.approx(12.5e6, rel=0.25)
    assert cluster.between.latency_s == pytest.approx(0.01, abs=0.01)
    assert [(host.count, host.workers) for host in cluster.hosts] == [(4, 1)]
