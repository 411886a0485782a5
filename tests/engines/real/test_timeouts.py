"""Times of real runs fit together, and each has its reason beside it."""

import ast
from pathlib import Path

import pytest

from weft.engines.hosts import timeouts as between_hosts
from weft.engines.real import timeouts


@pytest.mark.parametrize("module", [timeouts, between_hosts], ids=["real", "hosts"])
def test_each_time_has_its_unit_in_its_name_and_its_reason_below(module: object) -> None:
    _, *body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body  # type: ignore[attr-defined]
    names = [node.targets[0].id for node in body[::2]]  # type: ignore[attr-defined]
    assert all(name.endswith(("_S", "_S_MAX", "_STEPS")) for name in names)
    assert all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body[1::2])
    assert len(body) == 2 * len(names)


def test_a_helper_that_is_stopped_is_ended_before_its_silence_is_taken_for_its_hosts() -> None:
    assert timeouts.HELPER_STOPPED_S + timeouts.HELPER_LOOK_S < between_hosts.AGENT_SILENT_S
    assert 4 * timeouts.HELPER_LOOK_S <= timeouts.HELPER_STOPPED_S


def test_one_that_is_stopped_is_given_up_before_one_that_only_says_nothing() -> None:
    assert timeouts.PROCESS_STOPPED_S < timeouts.WORKER_SILENT_S
    assert timeouts.PROCESS_STOPPED_STEPS < timeouts.WORKER_SILENT_STEPS


def test_a_stopped_worker_is_found_before_all_who_wait_for_it_are_called_a_deadlock() -> None:
    assert timeouts.PROCESS_STOPPED_S < timeouts.ALL_WAIT_S
