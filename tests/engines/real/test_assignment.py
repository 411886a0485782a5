"""What each worker of a run is told first."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.scripts.training_scripts import write

from weft.config.devices import FakeKind
from weft.config.network import EmulatedNetwork
from weft.config.options import Checked, NetworkOptions, Options, ReduceOptions, ShareOptions
from weft.cost.links import Link
from weft.engines.real.assignment import assigned
from weft.engines.real.job import RealJob
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import WorkerJob

SECRET = bytes(range(32))
DESCRIPTORS = Descriptors(3, 4, 5, 6, [[7, 8], [9, 10]])


def told(folder: Path, rank: int = 0, **options: Any) -> WorkerJob:
    return assigned(RealJob(script=write(folder, ""), **options), DESCRIPTORS, ["a", "b"], SECRET)(rank)


def test_workers_are_told_the_same_but_for_their_rank_and_how_slow_they_are(tmp_path: Path) -> None:
    assign = assigned(RealJob(script=write(tmp_path, ""), slow={1: 4.0}, seed=9), DESCRIPTORS, [], SECRET)
    first, second = assign(0), assign(1)
    assert (second.rank, second.slow, second.seed) == (1, 4.0, 9)
    assert msgspec.structs.replace(second, rank=0, slow=1.0) == first
    assert first.secret == SECRET


def test_workers_are_told_where_they_are_and_what_they_share(tmp_path: Path) -> None:
    assert (told(tmp_path).addresses, told(tmp_path).descriptors) == (["a", "b"], DESCRIPTORS)


def test_workers_are_told_whose_hosts_are_whose_and_whether_others_can_be_on_their_network(tmp_path: Path) -> None:
    apart = told(tmp_path, num_workers=3, hosts=(0, 0, 1))
    assert (apart.hosts, apart.is_private) == ([0, 0, 1], False)
    network = EmulatedNetwork(1e6, 0.01)
    slow = told(tmp_path, num_workers=1, network=network, transport="tcp")
    assert (slow.is_private, slow.link) == (True, Link(0.01, 1e6))
    assert told(tmp_path, num_workers=1, transport="tcp").link is None
    assert told(tmp_path, num_workers=1).owns_core
    assert not slow.owns_core, "the relay needs one, too"


def test_workers_are_told_whether_a_gradient_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    assert not told(tmp_path).stops_on_nan
    assert told(tmp_path, options=Options(run=Checked(on_nan="stop"))).stops_on_nan


def test_workers_on_devices_are_told_theirs_and_all_who_is_on_one(tmp_path: Path) -> None:
    devices = {1: FakeKind(0.5, 7.0)}
    first, second = (
        told(tmp_path, rank, devices=devices, options=Options(reduce=ReduceOptions(place="host"))) for rank in (0, 1)
    )
    assert (first.device, second.device) == (None, (0.5, 7.0))
    assert first.on_devices == second.on_devices == [1]
    assert first.reduce_place == second.reduce_place == "host"


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, "static"),
        ({"share": "proportional"}, "proportional"),
        ({"share": "proportional", "num_workers": 1}, "static"),
        ({"share": "stealing", "baseline": "ddp"}, "static"),
    ],
)
def test_data_is_shared_as_asked_but_evenly_under_a_baseline_and_alone(
    tmp_path: Path, options: dict[str, Any], share: str
) -> None:
    job = told(tmp_path, options=Options(shares=ShareOptions(every=5)), **options)
    assert (job.share, job.block_steps) == (share, 5)


def test_a_network_is_trusted_only_if_that_is_said(tmp_path: Path) -> None:
    assert not told(tmp_path).trusts_network
    assert told(tmp_path, options=Options(network=NetworkOptions(trusted=True))).trusts_network


def test_workers_give_their_files_back_if_somebody_has_a_place_for_them(tmp_path: Path) -> None:
    assert not told(tmp_path).gives_back
    assert told(tmp_path, brings_back_to=tmp_path).gives_back
