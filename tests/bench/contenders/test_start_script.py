"""The script of both contenders of `weft bench start`."""

import socket
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from weft.bench.contender import script_of
from weft.bench.contenders.start_script import BATCH_SIZE, images, main, small_net


def assert_stepped(folder: Path, began_s: float) -> None:
    """There is one worker, and it has made its step meanwhile."""
    (written,) = folder.iterdir()
    assert written.name == "0"
    assert began_s < float(written.read_text()) < time.monotonic()


def test_the_script_alone_makes_one_step_and_writes_down_when(tmp_path: Path) -> None:
    began_s = time.monotonic()
    main("weft", str(tmp_path))
    assert_stepped(tmp_path, began_s)


@pytest.mark.processes
def test_under_torchrun_it_makes_one_step_and_writes_down_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    began_s = time.monotonic()
    process = get_context("fork").Process(target=main, args=("torchrun", str(tmp_path)))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert_stepped(tmp_path, began_s)


def test_each_worker_has_one_batch_that_fits_the_network() -> None:
    data = images(3)
    assert len(data) == 3 * BATCH_SIZE
    assert small_net()(data[:BATCH_SIZE][0]).shape == torch.Size([BATCH_SIZE, 10])


@pytest.mark.processes
def test_without_weft_the_script_does_not_import_it() -> None:
    path = script_of("weft.bench.contenders.start_script")
    code = f"import runpy, sys; runpy.run_path({str(path)!r}); print('weft' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
