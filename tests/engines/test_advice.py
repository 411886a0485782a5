"""What would help: found in virtual time, quickly, and said so that it can be typed."""

import time
from pathlib import Path
from typing import Any

import pytest

from weft.config.network import read_network
from weft.core.activity import COMPUTES, PAUSED, READS
from weft.engines import advice as module
from weft.engines.advice import ADVICE_S_MAX, LOADER, RunDescription, Way, advise, samples_per_s, setting_of
from weft.engines.real.job import RealJob
from weft.observe.records.linkbook import NETWORK
from weft.observe.records.stragglers import Blame, Cost
from weft.runtime.messages import Welcome

MODEL_BYTES = 400_000


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found does not depend on how busy the machine is."""
    monkeypatch.setattr(module, "ADVICE_S_MAX", 60.0)


def costs(num_workers: int = 4, slow: float = 4.0) -> dict[int, Cost]:
    """Of workers of which the first is so many times slower."""
    usual = Cost(0.01, 0.0, 0.05, 32.0)
    return {rank: Cost(0.01 * slow, 0.0, 0.05, 32.0) if rank == 0 else usual for rank in range(num_workers)}


def setting(
    strategy: str = "allreduce", compress: str | None = None, share: str = "static", **more: Any
) -> RunDescription:
    told = {"transport": "shm", "network": None, "num_cores": 4, **more}
    return RunDescription(Way(strategy, compress, share), MODEL_BYTES, 4 << 20, **told)


def blame(cause: str) -> Blame:
    return Blame(0, cause, 10, 0.04, 0.01, 0.05)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_throughput_is_that_of_the_slowest_where_all_wait_and_of_all_together_where_shares_fit(transport: str) -> None:
    now = setting(transport=transport)
    told = {share: samples_per_s(Way("allreduce", None, share), costs(), now) for share in ("static", "proportional")}
    assert told["static"] == pytest.approx(4 * 32 / 0.04, rel=0.1)
    assert told["proportional"] == pytest.approx(3 * 3200 + 800, rel=0.1)


def test_workers_that_share_cores_gain_less() -> None:
    many, few = (advise(blame(COMPUTES), costs(), setting(num_cores=cores)) for cores in (4, 1))
    assert many == "Try --share proportional: 3.1 times as many samples/s at most, by simulation."
    assert few == "Try --share proportional: 1.7 times as many samples/s at most, by simulation."


def test_where_shares_are_proportional_already_a_strategy_that_waits_less_is_tried() -> None:
    told = advise(blame(COMPUTES), costs(), setting(share="proportional"))
    assert told == ""
    stealing = advise(blame(COMPUTES), costs(), setting("async_gossip", share="stealing"))
    assert stealing == ""


def test_a_slow_reader_is_given_processes_and_a_smaller_share() -> None:
    told = advise(blame(READS), costs(), setting())
    assert told == f"{LOADER} Try --share proportional: 3.1 times as many samples/s at most, by simulation."
    assert advise(blame(READS), costs(), None) == LOADER


@pytest.mark.parametrize("other", [Cost(0.0, 0.0, 0.05, 32.0), Cost(0.01, 0.0, 0.05, 0.0)])
def test_nothing_is_tried_with_a_worker_that_seems_to_need_no_time_or_to_do_nothing(other: Cost) -> None:
    assert advise(blame(COMPUTES), {**costs(), 1: other, 2: other, 3: other}, setting()) == ""


def test_slow_links_are_used_less_or_less_often() -> None:
    network = read_network("1gbit,1ms", "2:20mbit,10ms")
    on_slow_links = setting(transport="tcp", network=network)
    told = advise(blame(NETWORK), costs(slow=1.0), on_slow_links)
    assert told.startswith("Try --strategy 'diloco(period=16)' --compress 'topk(0.01)': ")
    coded = setting(compress="topk(0.01)", transport="tcp", network=network)
    assert advise(blame(NETWORK), costs(slow=1.0), coded).startswith("Try --strategy 'diloco(period=16)': ")


def test_under_a_baseline_the_strategy_is_named_too() -> None:
    told = advise(blame(COMPUTES), costs(), setting(is_baseline=True))
    assert told == "Try --strategy allreduce --share proportional: 3.1 times as many samples/s at most, by simulation."


def test_for_a_pause_strategies_that_do_not_wait_are_named_unless_the_run_has_one() -> None:
    assert advise(blame(PAUSED), costs(), setting()) == "Workers need not wait for it with --strategy async_gossip."
    assert advise(blame(PAUSED), costs(), setting("async_gossip")) == ""


def test_nothing_is_said_where_nothing_helps_or_nobody_can_tell() -> None:
    assert advise(blame(COMPUTES), costs(slow=1.0), setting()) == ""
    assert advise(blame(COMPUTES), costs(num_workers=64), setting()) == ""
    assert advise(blame(COMPUTES), costs(), None) == ""


@pytest.mark.parametrize("num_workers", [4, 32])
def test_advice_is_cheap(num_workers: int) -> None:
    began_s = time.process_time()
    assert advise(blame(COMPUTES), costs(num_workers), setting(num_cores=num_workers))
    assert time.process_time() - began_s < ADVICE_S_MAX + 1.0


def test_a_trial_that_is_not_over_in_time_is_given_up_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADVICE_S_MAX", ADVICE_S_MAX)
    now_s = [0.0]

    def each_look_takes_a_while() -> float:
        now_s[0] += ADVICE_S_MAX / 100
        return now_s[0]

    monkeypatch.setattr(module.time, "perf_counter", each_look_takes_a_while)
    assert advise(blame(COMPUTES), costs(), setting(transport="tcp")) == "", "80 steps of the run as it is, then 20"
    assert now_s[0] == pytest.approx(ADVICE_S_MAX, abs=3 * ADVICE_S_MAX / 100)


def test_a_setting_is_what_the_workers_were_welcomed_with(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    job = RealJob(script=script, num_workers=3, share="proportional")
    told = setting_of(job, Welcome("ssp", [], compress="onebit"), 800)
    assert told is not None
    assert (told.way, told.num_bytes, told.is_baseline) == (Way("ssp", "onebit", "proportional"), 800, False)
    assert setting_of(job, Welcome("", []), 800) is None, "a strategy of the script's own"
    baseline = setting_of(RealJob(script=script, baseline="ddp"), Welcome("allreduce", []), 0)
    assert baseline is not None
    assert baseline.is_baseline


def test_on_several_hosts_what_crosses_between_them_counts() -> None:
    slow = read_network("10mbit,10ms")
    apart = setting(network=slow, hosts=(0, 0, 1, 1))
    assert apart.ends(4) == (0, 0, 1, 1)
    assert setting().ends(4) == (0, 0, 0, 0)
    assert setting(transport="tcp").ends(4) == (0, 1, 2, 3)
    told = {name: samples_per_s(Way(name), costs(slow=1.0), apart) for name in ("allreduce", "local_sgd(period=16)")}
    assert told["local_sgd(period=16)"] > 4 * told["allreduce"]
    step_s = 0.01 + 2 * (0.01 + MODEL_BYTES / 2 / 1.25e6)  # halving and doubling between two hosts
    assert told["allreduce"] == pytest.approx(4 * 32 / step_s, rel=0.1)
