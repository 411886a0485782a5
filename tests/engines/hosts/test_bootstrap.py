"""Scripts that another engine has started become workers of one run, on one host or on several."""

import os
import signal
import socket
import sys
import time
from pathlib import Path
from secrets import token_hex

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load_file
from support.processes.launched_workers import launched
from support.processes.launches import FOREVER, TRAIN
from support.processes.rendezvous import MemoryBoard
from support.scripts.training_scripts import write

from weft.config.settings import Settings
from weft.core.errors import ConfigError, TransportError, WeftError
from weft.engines.hosts import bootstrap, timeouts
from weft.engines.hosts.agent import AgentOrders
from weft.engines.hosts.bootstrap import ControllerOrders, join_run, pass_signals_on, receive_job, wait_for_reader
from weft.engines.hosts.launch_env import LaunchPlacement
from weft.engines.hosts.rendezvous import post_note
from weft.engines.hosts.worker_info import worker_info
from weft.runtime.channel import Channel

SECRET = {"WEFT_SECRET": token_hex(32)}
TRAINING = (
    TRAIN
    + """
goal = np.arange(50.0)
for epoch in worker.epochs(3):
    for rows in worker.share(40, batch_size=4):
        worker.step({"w": w - goal - rows.mean()})
    worker.report(distance=lambda: float(abs(w - goal).mean()))
worker.save("model.safetensors")
say(f"worker {worker.rank} of {worker.num_workers} is done")
"""
)
COMPUTES = """
for _ in worker.share(30, batch_size=2):
    worker.step({"w": w})
    break
say("trains")
time.sleep(60)
"""
ONE, TWO = ["mill"] * 2, ["mill", "barn", "mill"]


@pytest.mark.parametrize("hosts", [ONE, TWO], ids=["one host", "two hosts"])
def test_all_train_one_model_and_nothing_is_left(hosts: list[str], tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAINING), hosts, environ=SECRET) as run:
        assert run.end() == [0] * len(hosts), run.text
        for rank in range(len(hosts)):
            assert f"worker {rank} of {len(hosts)} is done" in run.text
        assert "epoch   3  distance" in run.text
        assert f"allreduce, {len(hosts)} workers" in run.text
        assert (tmp_path / "model.safetensors").is_file()


def test_one_host_listens_on_loopback_and_its_secret_goes_to_no_other_process(tmp_path: Path) -> None:
    script = (
        TRAINING
        + """
import os
say("secret here: " + str("WEFT_SECRET" in os.environ))
for line in open("/proc/net/tcp").readlines()[1:]:
    if line.split()[3] == "0A":
        say("listens at " + line.split()[1])
"""
    )
    with launched(write(tmp_path, script), ONE, environ={**SECRET, "WEFT_INTERFACE": "127.77.7.1"}) as run:
        assert run.end() == [0, 0], run.text
        assert run.text.count("secret here: False") == 2
        assert "listens at 0100007F" in run.text
        assert "listens at 01074D7F" not in run.text


def test_two_hosts_train_the_same_parameters_as_one(tmp_path: Path) -> None:
    models = []
    for name, hosts in (("apart", ["mill", "mill", "barn", "barn"]), ("together", ["mill"] * 4)):
        (tmp_path / name).mkdir()
        with launched(write(tmp_path / name, TRAINING), hosts, environ=SECRET) as run:
            assert run.end() == [0] * 4, run.text
        models.append(load_file(tmp_path / name / "model.safetensors")["w"])
    assert models[0].dtype == np.float64
    np.testing.assert_allclose(models[0], models[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("hosts", [["mill"] * 3, TWO], ids=["one host", "two hosts"])
def test_a_killed_worker_is_named_and_all_others_end_within_two_seconds(hosts: list[str], tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), hosts, environ=SECRET) as run:
        run.until("trains", 3)
        run.kill(1)
        killed_s = time.monotonic()
        codes = run.end()
        assert run.ended_s - killed_s < 2.0
        assert codes[1] == -signal.SIGKILL
        assert {codes[0], codes[2]} <= {1, 3}  # who noticed by itself has failed, who was told has ended
        assert f"weft: worker 1 (host {os.uname().nodename}, pid {run.pids[1]}) stopped " in run.text


def test_a_script_that_raises_is_named_with_its_traceback(tmp_path: Path) -> None:
    script = TRAIN + "if worker.rank == 1: raise ValueError('bad luck')\n" + FOREVER
    with launched(write(tmp_path, script), ONE) as run:
        assert run.end() == [3, 1]
        assert "raised ValueError at step 0: bad luck" in run.text


@pytest.mark.parametrize("word", ["sys.exit", "quit"])
def test_a_script_that_leaves_with_a_code_has_failed_and_its_process_ends_with_it(word: str, tmp_path: Path) -> None:
    script = TRAIN + f"if worker.rank == 1: {word}(7)\n" + FOREVER
    with launched(write(tmp_path, script), ONE) as run:
        assert run.end() == [3, 7]
        assert "left at step 0: the script called sys.exit(7)" in run.text
        assert "ScriptLeft" not in run.text
        assert "Traceback" not in run.text


def test_a_signal_ends_a_run_in_order(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), ONE) as run:
        run.until("trains", 2)
        os.kill(run.pids[0], signal.SIGTERM)
        assert run.end() == [0, 0], run.text
        assert "stopping after this step" in run.text
        assert run.text.count("left at") == 2


@pytest.mark.parametrize("does", [FOREVER, COMPUTES], ids=["waits", "computes"])
def test_workers_whose_helpers_are_gone_end_and_say_so(does: str, tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + does), ONE) as run:
        run.until("trains", 2)
        for pid in run.helpers():
            os.kill(pid, signal.SIGKILL)
        killed_s = time.monotonic()
        assert set(run.end()) <= {1, 3}, run.text  # who was about to say something has failed
        assert run.ended_s - killed_s < 5.0
        assert run.text.count("is gone") >= 2


def test_a_signal_to_all_processes_of_a_job_ends_it_in_order(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), ONE) as run:
        run.until("trains", 2)
        run.tell_helpers(signal.SIGTERM)
        for pid in run.pids:
            os.kill(pid, signal.SIGTERM)
        assert run.end() == [0, 0], run.text
        assert run.text.count("stopping after this step") == 1
        assert run.text.count("left at") == 2


def test_all_is_said_before_the_last_worker_ends(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAINING), TWO, environ=SECRET) as run:
        assert run.end(is_swept=True) == [0, 0, 0], run.text
        assert "In all: " in run.text


@pytest.mark.parametrize("killed", [0, 1])
def test_a_death_is_explained_before_the_last_worker_ends(killed: int, tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAIN + FOREVER), ["mill"] * 3) as run:
        run.until("trains", 3)
        run.kill(killed)
        run.end(is_swept=True)
        assert f"weft: worker {killed} (host " in run.text


def test_several_hosts_need_a_secret(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAINING), ["mill", "barn"]) as run:
        assert run.end() == [1, 1]
        assert "this run is on" in run.text
        assert "has no secret" in run.text


def test_who_waits_for_others_in_vain_says_which_attempt_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", [str(write(tmp_path, TRAIN))])
    monkeypatch.setattr(timeouts, "ALL_JOINED_S_MAX", 0.05)
    rendezvous, placed = MemoryBoard(), LaunchPlacement(0, 2, "127.0.0.1", 29500, "mill/1", False)
    with pytest.raises(TransportError, match=r"no process had posted 'present/1'\.\n  This is attempt 'mill/1'"):
        join_run(placed, rendezvous, {})
    with pytest.raises(ConfigError, match=r"rank 0 is there twice: .*\n.* This is attempt 'mill/1'"):
        join_run(placed, rendezvous, {})


class Enough(Exception):
    """Stands for a seat that nobody takes."""


def join_alone(monkeypatch: pytest.MonkeyPatch, script: Path) -> list[bytes]:
    """Worker 0 of two joins, but starts nobody; the orders that it would have given."""
    given: list[bytes] = []
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr(bootstrap, "start_apart", lambda name, module, orders, descriptors=(): given.append(orders))
    monkeypatch.setattr(bootstrap, "take_seat", lambda *args, **more: (_ for _ in ()).throw(Enough))
    rendezvous = MemoryBoard()
    post_note(rendezvous, "present/1", worker_info(1, "127.0.0.1", script, Settings()))
    with pytest.raises(Enough):
        join_run(LaunchPlacement(0, 2, "127.0.0.1", 29500, "mill/0", False), rendezvous, dict(SECRET))
    return given


def test_head_and_steward_of_a_run_have_a_secret_that_no_other_run_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secrets = set()
    for _ in range(2):
        controller, agent = join_alone(monkeypatch, write(tmp_path, TRAIN))
        mine = msgspec.json.decode(controller, type=ControllerOrders).secret
        assert msgspec.json.decode(agent, type=AgentOrders).secret == mine
        secrets.add(mine)
    assert len(secrets | {bytes.fromhex(SECRET["WEFT_SECRET"])}) == 3


def test_a_host_with_another_secret_is_refused(tmp_path: Path) -> None:
    environ = {**SECRET, "1:WEFT_SECRET": token_hex(32)}
    with launched(write(tmp_path, TRAINING), ["mill", "barn"], environ=environ) as run:
        run.until("the run's controller at 127.0.0.1")
        assert "epoch" not in run.text
        run.kill(0)


@pytest.mark.parametrize(
    ("environ", "what"),
    [({"1:WEFT_STRATEGY": "ssp"}, "another strategy"), ({"1:WEFT_COMPRESS": "fp16"}, "another compress")],
    ids=["strategy", "codec"],
)
def test_workers_with_other_settings_are_refused_everywhere(environ: dict[str, str], what: str, tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAINING), ONE, environ=environ) as run:
        assert run.end() == [1, 1]
        assert run.text.count(f"worker 1 (host {os.uname().nodename}) has {what} than worker 0") >= 2


def test_settings_of_the_environment_rule(tmp_path: Path) -> None:
    environ = {"WEFT_STRATEGY": "gossip", "WEFT_STEPS": "6"}
    with launched(write(tmp_path, TRAINING), ["mill"] * 3, environ=environ) as run:
        assert run.end() == [0, 0, 0], run.text
        assert "gossip, 3 workers" in run.text


def test_a_part_that_does_not_come_is_not_waited_for_without_end() -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        with pytest.raises(TransportError, match=rf"for 0.05 s.\n  The host agent \(pid {os.getpid()}\)"):
            receive_job(Channel(mine), mine, 0.05)
        theirs.close()
        with pytest.raises(WeftError, match="the run ended before this worker had its part"):
            receive_job(Channel(mine), mine, 20.0)


def test_a_signal_that_nobody_hears_of_any_more_does_what_signals_do() -> None:
    pid = os.fork()
    if not pid:
        readable, writable = os.pipe()
        os.close(readable)
        pass_signals_on(writable)
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM


def test_the_end_of_a_pipes_reader_is_seen_and_a_reader_that_stays_is_not_waited_for() -> None:
    readable, writable = os.pipe()
    began_s = time.monotonic()
    wait_for_reader(writable, 0.05)
    assert time.monotonic() - began_s >= 0.05
    os.close(readable)
    wait_for_reader(writable, 3600.0)
    os.close(writable)


def test_signals_that_come_together_are_one() -> None:
    readable, writable = os.pipe()
    now = [0.0]
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        pass_signals_on(writable, lambda: now[0])
        for number, moment in ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.1), (signal.SIGINT, 6.5)):
            now[0] = moment
            os.kill(os.getpid(), number)
        assert os.read(readable, 10) == b"!!"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(readable)
        os.close(writable)


def test_worker_0_says_whom_it_waits_for(tmp_path: Path) -> None:
    script = "import os, select\nfrom weft.engines.hosts import timeouts\ntimeouts.ALL_JOINED_TOLD_S = 0.2\n"
    script += "if os.environ['LATE'] == '1': select.select([], [], [], 2.0)\n" + TRAINING
    with launched(write(tmp_path, script), ONE, environ={"LATE": "0", "1:LATE": "1"}) as run:
        assert run.end() == [0, 0], run.text
        assert (
            "weft: some workers have not called weft.join yet: after 0.2 s no process had posted 'present/1'"
            in run.text
        )


@pytest.mark.parametrize(
    ("option", "because"),
    [
        ("reduce.collective=rong", "Did you mean 'ring'?"),
        ("write.log=a.jsonl", "--set write.log is for weft run and weft simulate, not for torchrun."),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_anything_starts(option: str, because: str, tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAINING), ONE, environ={"WEFT_SET": option}) as run:
        assert run.end() == [1, 1]
        assert because in run.text


def test_a_strategy_that_is_misspelt_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with launched(write(tmp_path, TRAINING), ONE, environ={"WEFT_STRATEGY": "alreduce"}) as run:
        assert run.end() == [1, 1]
        assert "Did you mean 'allreduce'?" in run.text
        assert "head" not in run.text
