"""A run on real workers is checked before anything starts."""

import sys
from pathlib import Path
from typing import Any

import pytest

from weft.checkpoints.manifest import RunFacts
from weft.checkpoints.taking import CheckpointPlan
from weft.config.chaos import ChaosPlan
from weft.config.devices import FakeKind
from weft.config.network import EmulatedNetwork
from weft.config.on_loss import STOP
from weft.config.options import Checked, Options
from weft.core.errors import ConfigError
from weft.engines.real.job import RealJob, spread, survivable


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 0}, "-n is 0, but a run needs at least 1 worker.\n  Use -n 1."),
        ({"transport": "tpc"}, "transport 'tpc' is not known.\n  Did you mean 'tcp'?"),
        ({"baseline": "dpp"}, "baseline 'dpp' is not known.\n  Did you mean 'ddp'?"),
        (
            {"global_batch": 1},
            "data.global_batch is 1, but 2 workers need at least 1 sample each.\n"
            "  Use --set data.global_batch=2 or more.",
        ),
        (
            {"slow": {2: 4.0}},
            "--slow 2:4 wants a worker from 0 to 1 and a factor of at least 1.\n  Write e.g. --slow 0:4.",
        ),
        (
            {"slow": {0: 0.5}},
            "--slow 0:0.5 wants a worker from 0 to 1 and a factor of at least 1.\n  Write e.g. --slow 0:4.",
        ),
        (
            {"strategy": "hogwild", "transport": "tcp"},
            "'hogwild' writes one replica that all workers share, but 2 workers would be spread over 2 hosts, or talk "
            "by sockets.\n  Use 'async_gossip' or 'downpour' there, or workers of one host that share memory.",
        ),
        (
            {"devices": {2: FakeKind()}},
            "--set worker.device names worker 2, but there are 2 workers.\n  Name one from 0 to 1.",
        ),
        (
            {"devices": {0: FakeKind()}, "num_workers": 1},
            "--set worker.device is for sums of several workers, but there is one.\n  Use -n 2 or more.",
        ),
        (
            {"devices": {0: FakeKind()}, "transport": "tcp"},
            "--set worker.device is for sums in shared memory, and does not go with --transport tcp.\n"
            "  Leave out one of them.",
        ),
        (
            {"devices": {0: FakeKind()}, "transport": "torch"},
            "--set worker.device is for sums in shared memory, and does not go with --transport torch.\n"
            "  Leave out one of them.",
        ),
        (
            {"transport": "torch", "collective": "ring"},
            "reduce.collective=ring does all-reduce by Weft's own messages, but with --transport torch it is "
            "torch.distributed that sums.\n  Leave out one of them.",
        ),
        (
            {"network": EmulatedNetwork(1e6, 0.0), "transport": "torch"},
            "--net is for workers that talk by sockets.\n  Use --transport tcp, or leave it out.",
        ),
        (
            {"devices": {0: FakeKind()}, "collective": "ring"},
            "--set worker.device is for sums in shared memory, and does not go with --set "
            "reduce.collective.\n  Leave out one of them.",
        ),
        (
            {"devices": {0: FakeKind()}, "compress": "bf16"},
            "--set worker.device does not go with a codec, but 'allreduce + bf16' has one.\n  Use --compress none.",
        ),
        (
            {"devices": {0: FakeKind()}, "strategy": "gossip"},
            "--set worker.device is for strategies that sum over all workers, which 'gossip' never does.\n"
            "  Use e.g. --strategy allreduce.",
        ),
        (
            {"network": EmulatedNetwork(1e6, 0.0), "transport": "shm"},
            "--net is for workers that talk by sockets.\n  Use --transport tcp, or leave it out.",
        ),
        (
            {"network": EmulatedNetwork(1e6, 0.0, own=((2, EmulatedNetwork(1e6, 0.1)),)), "transport": "tcp"},
            "--net says the link of worker 2, but there are 2 workers.\n  Name one from 0 to 1.",
        ),
        (
            {"strategy": "hogwild", "hosts": (0, 0, 1), "num_workers": 3},
            "'hogwild' writes one replica that all workers share, but 3 workers would be spread over 2 hosts, or talk "
            "by sockets.\n  Use 'async_gossip' or 'downpour' there, or workers of one host that share memory.",
        ),
        (
            {"hosts": (0, 1), "devices": {0: FakeKind()}},
            "--hosts does not go with --set worker.device.\n  Leave out one of them.",
        ),
        (
            {"hosts": (0, 1), "baseline": "ddp"},
            "--hosts does not go with --baseline ddp.\n  Leave out one of them.",
        ),
        (
            {"hosts": (0, 1), "network": EmulatedNetwork(1e6, 0.0, own=((1, EmulatedNetwork(1e6, 0.1)),))},
            "--hosts does not go with the link of a single worker.\n  Leave out one of them.",
        ),
        ({"share": "steeling"}, "share 'steeling' is not known.\n  Did you mean 'stealing'?"),
        (
            {"strategy": "gossip", "share": "stealing"},
            "the workers of 'gossip' wait for each other's steps, but with --share stealing each makes as many as "
            "it can.\n  Use --share proportional, which keeps the steps of all equal, or a strategy whose workers do "
            "not wait: 'async_gossip', 'ssp(staleness=None)' or 'hogwild'.",
        ),
        (
            {"baseline": "ddp", "options": Options(run=Checked(on_nan=STOP))},
            "--on-nan stop does not go with --baseline ddp, which trains as without Weft.\n  Leave out one of them.",
        ),
        ({"strategy": "gosip"}, "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
        (
            {"num_workers": 1, "on_loss": "replace"},
            "--on-loss replace lets others go on without a lost worker, but there is one worker.\n"
            "  Use -n 2 or more; or --checkpoint FOLDER, from which the same command goes on.",
        ),
        (
            {"transport": "torch", "chaos": ChaosPlan("kill", 1.0)},
            "--chaos does not go with --transport torch yet.\n  Leave out one of them.",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_what_to_write_instead(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(ConfigError) as refused:
        RealJob(script=script, **{"num_workers": 2, **options})
    assert str(refused.value) == message


def test_a_job_under_a_baseline_or_another_strategy_is_otherwise_the_same(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    job = RealJob(script=script, arguments=("--epochs", "3"), num_workers=2, seed=5)
    assert job.label == "allreduce"
    assert job.with_strategy("ssp") == RealJob(
        script=script, arguments=("--epochs", "3"), num_workers=2, strategy="ssp", seed=5
    )
    assert (job.with_strategy("ssp").under("ddp").label, job.under("ddp").strategy) == ("ddp", None)


def test_labels_say_how_data_is_shared_and_a_baseline_or_a_lone_worker_shares_it_evenly(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    job = RealJob(script=script, share="proportional", compress="fp16")
    assert (job.sharing, job.label) == ("proportional", "allreduce + fp16 share=proportional")
    assert job.with_strategy("ssp").label == "ssp + fp16 share=proportional"
    assert (job.under("ddp").share, job.under("ddp").label) == ("static", "ddp")
    alone = RealJob(script=script, num_workers=1, share="stealing", strategy="allreduce")
    assert (alone.sharing, alone.label) == ("static", "allreduce")


def test_a_baseline_knows_no_fake_devices(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    assert RealJob(script=script, devices={0: FakeKind()}).under("ddp").devices == {}


def test_workers_are_spread_evenly_over_hosts_and_only_those_of_one_share_memory(tmp_path: Path) -> None:
    assert spread(7, 3) == (0, 0, 0, 1, 1, 2, 2)
    assert spread(4, 1) == ()
    script = tmp_path / "train.py"
    script.write_text("")
    apart, together = (
        RealJob(script=script, arguments=(), num_workers=7, hosts=spread(7, 3)),
        RealJob(script=script, arguments=(), num_workers=7),
    )
    assert (apart.num_hosts, apart.num_memories, apart.num_addresses) == (3, 3, 3)
    assert (together.num_hosts, together.num_memories, together.num_addresses) == (1, 1, 7)


@pytest.mark.parametrize("num_hosts", [0, 3])
def test_every_host_has_a_worker(num_hosts: int) -> None:
    with pytest.raises(ConfigError) as refused:
        spread(2, num_hosts)
    assert str(refused.value) == (
        f"--hosts is {num_hosts}, but each host has a worker, and there are 2.\n  Use --hosts 1 to 2."
    )


def test_torch_must_be_there_to_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError) as refused:
        RealJob(script=script, transport="torch")
    expected = "--transport torch needs torch, which is not installed.\n  Install it: pip install 'weft[torch]'"
    assert str(refused.value) == expected
    with pytest.raises(ConfigError) as refused:
        RealJob(script=script, baseline="ddp")
    assert str(refused.value) == expected.replace("--transport torch", "--baseline ddp")


def test_several_hosts_need_what_certificates_are_made_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setitem(sys.modules, "OpenSSL", None)
    with pytest.raises(ConfigError) as refused:
        RealJob(script=script, hosts=(0, 1))
    assert str(refused.value) == (
        "--hosts needs pyOpenSSL, which is not installed.\n  Install it: pip install 'weft[tls]'"
    )


def test_workers_share_a_memory_unless_they_talk_by_sockets(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    memories = {t: RealJob(script=script, num_workers=3, transport=t).num_memories for t in ("shm", "tcp", "torch")}
    assert memories == {"shm": 1, "tcp": 3, "torch": 1}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"transport": "torch"}, "--transport torch"),
        ({"devices": {0: FakeKind()}}, "--set worker.device"),
        ({"share": "proportional"}, "--share proportional"),
    ],
)
def test_what_cannot_go_on_without_a_lost_worker_yet_is_refused(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(ConfigError) as refused:
        RealJob(script=script, num_workers=2, on_loss="shrink", **options)
    assert str(refused.value) == f"--on-loss shrink does not go with {named} yet.\n  Leave out one of them."
    RealJob(script=script, num_workers=2, **options)


def test_lost_workers_that_share_no_memory_are_replaced_only_if_that_is_asked_for(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    assert RealJob(script=script, hosts=(0, 1), on_loss="replace").survives
    asked_for_nothing = RealJob(script=script, hosts=(0, 1))
    assert survivable(asked_for_nothing) == asked_for_nothing, "it would take longer"
    assert survivable(RealJob(script=script, transport="tcp")).on_loss == "stop"
    assert survivable(RealJob(script=script)).on_loss == "replace"


def test_workers_of_which_checkpoints_are_taken_can_stop_between_batches(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    plan = CheckpointPlan(str(tmp_path), RunFacts("allreduce", 2, 0))
    assert RealJob(script=script, num_workers=2, checkpoint=plan).survives
    assert not RealJob(script=script, num_workers=1, checkpoint=plan).survives, "alone it takes them by itself"
    assert not RealJob(script=script, num_workers=2).survives
