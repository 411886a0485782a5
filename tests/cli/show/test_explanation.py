"""--explain: words and a small table."""

from dataclasses import replace

import pytest

from weft.cli.show.explanation import RESULTS, explanation_lines
from weft.core.names import Result
from weft.cost.links import Link
from weft.engines.explanation import Explanation

TOLD = Explanation(
    strategy="allreduce",
    method="Synchronous SGD.",
    place="processes of this machine over sockets (tcp)",
    num_workers=4,
    servers=(),
    num_partners=None,
    shares_replica=False,
    keeps_step=True,
    result=Result.REPLICA,
    bucket_bytes=(3000, 2000),
    reduces=True,
    collective="tree",
    native="in memory",
    link=Link(1e-4, 1e9),
    prices_s={"ring": 0.004, "tree": 0.0005},
)


def test_a_run_is_told_line_by_line_and_prices_from_the_lowest() -> None:
    assert explanation_lines(TOLD) == [
        "How this will run:",
        "  strategy    allreduce: Synchronous SGD.",
        "  workers     4, processes of this machine over sockets (tcp); they keep step with each other",
        "  servers     none: workers talk to each other",
        "  model       5.0 kB in 2 buckets of up to 3.0 kB, sent one by one",
        "  all-reduce  tree: sums climb to rank 0, the result comes down.",
        "              the cheapest by formula, with 100 us a message and 1.0 GB/s:",
        "                tree                    500 us  <- this one",
        "                ring                    4.0 ms",
        "  result      worker 0's model: all workers' are equal",
    ]


def test_one_that_was_asked_for_is_told_as_such_and_a_native_one_in_its_own_words() -> None:
    asked, native = (explanation_lines(replace(TOLD, collective=name)) for name in ("ring", None))
    assert asked[6] == "              as asked for; by formula, with 100 us a message and 1.0 GB/s:"
    assert asked[8] == "                ring                    4.0 ms  <- this one"
    assert native[5:7] == [
        "  all-reduce  in memory",
        "              in messages it would take, by formula, with 100 us a message and 1.0 GB/s:",
    ]
    assert not any("this one" in line for line in native)


def test_servers_and_partners_are_named_and_no_prices_where_nothing_is_reduced() -> None:
    lines = explanation_lines(
        replace(TOLD, servers=(0, 1), num_partners=(1, 3), keeps_step=False, reduces=False, bucket_bytes=(7,))
    )
    assert lines[2:] == [
        "  workers     4, processes of this machine over sockets (tcp); none waits for another",
        "  servers     2, in the processes of workers: server 0 with worker 0, server 1 with worker 1",
        "  topology    each worker talks to 1 to 3 others",
        "  model       7 B in one bucket",
        "  all-reduce  none: this strategy never sums over all workers",
        "  result      worker 0's model: all workers' are equal",
    ]


def test_workers_that_share_a_model_do_not_talk() -> None:
    lines = explanation_lines(replace(TOLD, shares_replica=True))
    assert lines[3] == "  servers     none: workers write one model that they share"


def test_one_worker_has_nobody_to_talk_to() -> None:
    lines = explanation_lines(replace(TOLD, num_workers=1, num_partners=(0, 0)))
    assert lines[2].endswith("; nobody to talk to")
    assert lines[3] == "  servers     none"
    assert not any("all-reduce  " in line for line in lines)


@pytest.mark.parametrize("result", Result)
def test_every_result_has_its_words(result: Result) -> None:
    assert explanation_lines(replace(TOLD, result=result))[-1] == f"  result      {RESULTS[result]}"
