"""Real torchrun on network namespaces that are hosts: what trains there, what crosses the wire, and who is named."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.network.captures import Capture, Way, capture, is_tls_1_3
from support.network.machines import MEETING_PORT, Machines, Running, machines
from support.processes.launches import FOREVER, TRAIN
from support.processes.real import real
from support.scripts.examples import EXAMPLES
from support.scripts.training_scripts import write

PATIENCE_S = 240.0
SECRET = token_hex(32)
STORE = bytes.fromhex("00cef7853c")
"""How whoever calls a store of torch's begins."""


@pytest.fixture
def two() -> Iterator[Machines]:
    with machines(2) as hosts:
        yield hosts


def digits_in_float64(folder: Path) -> Path:
    """The example, exact enough to compare parameters: no dropout, whose masks are each run's own."""
    text = (EXAMPLES / "digits_cnn.py").read_text()
    assert "torch.float32" in text
    assert "Dropout(0.1)" in text
    text = text.replace("torch.float32", "torch.float64").replace("Dropout(0.1)", "Dropout(0.0)")
    return write(folder, text.replace("model = Net()", "model = Net().double()"))


def test_two_hosts_learn_what_one_does_and_only_tls_crosses_between_them(two: Machines, tmp_path: Path) -> None:
    script = digits_in_float64(tmp_path)
    with capture(two.namespaces[1]) as seen:
        what = script, "--epochs", 1, "--save", "apart.safetensors"
        run = two.torchrun(*what, workers_per_host=2, cwd=tmp_path, WEFT_SECRET=SECRET)
        assert run.end(PATIENCE_S) == [0, 0], run.text()
    assert not run.leftovers(), run.text()
    assert "allreduce, 4 workers" in run.text(0)
    assert accuracy(run) >= 0.8
    assert_only_tls(seen)
    assert SECRET not in run.text()
    real(script, 4, "allreduce", "--epochs", 1, "--save", tmp_path / "together.safetensors")
    apart, together = (load_file(tmp_path / f"{name}.safetensors") for name in ("apart", "together"))
    assert apart.keys() == together.keys()
    for name, values in together.items():
        assert values.dtype == np.float64
        np.testing.assert_allclose(apart[name], values, rtol=0, atol=1e-9, err_msg=name)


def accuracy(run: Running) -> float:
    told = [line for line in run.text(0).splitlines() if line.startswith("epoch")]
    return float(told[-1].split("accuracy")[1].split()[0])


def assert_only_tls(seen: Capture) -> None:
    """Besides torch's own stores, which say so, every connection is TLS 1.3 from its first byte on."""
    streams = seen.streams()
    stores = {MEETING_PORT, *(way.target_port for way, raw in streams.items() if raw.startswith(STORE))}
    ours = {way: raw for way, raw in streams.items() if not stores & {way.source_port, way.target_port}}
    assert len(ours) >= 2 * 2  # at least the host agent's to the head, and the workers' to each other, both ways
    for way, raw in ours.items():
        back = Way(way.target, way.target_port, way.source, way.source_port)
        assert is_tls_1_3(raw, ours[back]), f"{way} is not TLS"


def test_a_killed_worker_is_named_on_every_host_and_all_others_end_within_two_seconds(
    two: Machines, tmp_path: Path
) -> None:
    script = write(tmp_path, TRAIN + "say(f'{worker.rank} is {os.getpid()}.')\n" + FOREVER)
    run = two.torchrun(script, workers_per_host=2, cwd=tmp_path, WEFT_SECRET=SECRET)
    run.until("trains", 4, PATIENCE_S)
    pids = {rank: pid_of(run, rank) for rank in range(4)}
    os.kill(pids[3], signal.SIGKILL)
    killed_s = time.monotonic()
    while any(Path(f"/proc/{pids[rank]}/cmdline").exists() and is_running(pids[rank]) for rank in range(3)):
        assert time.monotonic() - killed_s < 2.0
    assert all(code for code in run.end(PATIENCE_S))
    assert not run.leftovers()
    for host in range(2):
        assert f"weft: worker 3 (host host1, pid {pids[3]}) stopped " in run.text(host)


def pid_of(run: Running, rank: int) -> int:
    (line,) = [line for line in run.text().splitlines() if f"{rank} is " in line]
    return int(line.rpartition(f"{rank} is ")[2].rstrip("."))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_host_without_the_secret_cannot_join(two: Machines, tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN + FOREVER)
    commands = [
        ["env", f"WEFT_SECRET={secret}", *two.torchrun_command(host, 1, script)]
        for host, secret in enumerate((SECRET, token_hex(32)))
    ]
    run = two.start(commands, cwd=tmp_path)
    run.until("the run's controller at 10.77.0.1", 1, PATIENCE_S)
    run.until("refused a connection from 10.77.0.2", 1, PATIENCE_S)
    assert "trains" not in run.text()
