"""Runs that other engines have started, when more than a worker fails: controller, host agent, models."""

import os
import signal
import time
from pathlib import Path
from secrets import token_hex

import pytest
from support.processes.launched_workers import LaunchedWorkers, launched
from support.processes.launches import FOREVER, TRAIN
from support.scripts.training_scripts import write

SECRET = {"WEFT_SECRET": token_hex(32)}
ONE, TWO = ["mill", "mill"], ["mill", "barn"]
OTHER_SHAPE = """
import numpy as np, os, weft
w = np.zeros(50 + int(os.environ["MORE"]))
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
"""

AGENT = "weft.engines.hosts.agent"


def helper(run: LaunchedWorkers, words: str) -> int:
    """The process of this run that was started with these words."""
    found = [pid for pid in run.helpers() if words in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")]
    return found[0]


@pytest.mark.parametrize("hosts", [ONE, TWO], ids=["one host", "two hosts"])
def test_workers_with_different_models_are_told_both_layouts(hosts: list[str], tmp_path: Path) -> None:
    with launched(write(tmp_path, OTHER_SHAPE), hosts, environ={**SECRET, "MORE": "0", "1:MORE": "7"}) as run:
        assert all(run.end())
        assert run.text.count("worker 1 joined with 'w") == len(set(hosts)), run.text
        assert "(57,)" in run.text
        assert "(50,)" in run.text


@pytest.mark.parametrize("hosts", [ONE, TWO], ids=["one host", "two hosts"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_workers_whose_controller_is_gone_end_and_every_host_says_so(
    hosts: list[str], number: int, tmp_path: Path
) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), hosts, environ=SECRET) as run:
        run.until("trains", 2)
        os.kill(helper(run, "weft.controller_main"), number)
        gone_s = time.monotonic()
        run.until("the run's controller is", len(set(hosts)))  # gone; or silent, if a worker failed first
        assert all(run.end())
        assert run.ended_s - gone_s < 10.0
        assert (number == signal.SIGSTOP) == ("the run's controller (pid" in run.text), run.text


def test_workers_whose_agent_is_stopped_end_and_it_is_named_and_ended(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), ONE, environ=SECRET) as run:
        run.until("trains", 2)
        os.kill(helper(run, AGENT), signal.SIGSTOP)
        stopped_s = time.monotonic()
        assert all(run.end())
        assert run.ended_s - stopped_s < 10.0
        assert "weft: the host agent (pid" in run.text


def test_a_host_whose_agent_is_gone_is_named_by_the_others(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), TWO, environ=SECRET) as run:
        run.until("trains", 2)
        agents = [pid for pid in run.helpers() if AGENT in Path(f"/proc/{pid}/cmdline").read_text()]
        assert len(agents) == 2
        os.kill(agents[0], signal.SIGKILL)
        assert all(run.end())
        assert "is gone: its connection" in run.text


def test_a_signal_to_everybody_is_an_orderly_end(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), ONE, environ=SECRET) as run:
        run.until("trains", 2)
        for pid in {*run.pids, *run.helpers()}:
            os.kill(pid, signal.SIGTERM)
        assert run.end() == [0, 0], run.text
        assert run.text.count("left at") == 2
        assert "allreduce, 2 workers" in run.text
