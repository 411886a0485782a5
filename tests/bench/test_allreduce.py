"""`weft bench allreduce`."""

from dataclasses import replace

import pytest

from weft.bench.allreduce import ALLREDUCE
from weft.bench.benchmark import measure


@pytest.mark.processes
def test_two_processes_of_gloo_sum_and_are_limited_by_a_copy() -> None:
    peers = [one for one in ALLREDUCE.contenders if one.name in ("gloo", "memcpy")]
    quick = replace(ALLREDUCE, contenders=tuple(peers), block_s=1e-3)
    report = measure(quick, quick.only(["2x64KiB"]), 2)
    gloo, memcpy = report["rows"]
    assert (gloo["contender"], memcpy["contender"]) == ("gloo", "memcpy")
    assert gloo["seconds"] > memcpy["seconds"] > 0


def test_the_bars_are_those_of_the_issue_and_name_what_is_measured() -> None:
    rivals, works = {one.ratio_name for one in ALLREDUCE.contenders}, {work.name for work in ALLREDUCE.works}
    assert len(works) == 8
    assert all(key.split("/")[0] in rivals and key.split("/")[1] in works for key in ALLREDUCE.bars)
    assert ALLREDUCE.bars["gloo/4x16MiB"] == 6
    assert ALLREDUCE.bars["mpi/4x128MiB"] == 2
