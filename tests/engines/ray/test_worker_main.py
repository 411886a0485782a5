"""A worker's process that nobody wants any more."""

import os
import subprocess
import sys

import msgspec

from weft.engines.ray.actor import ActorOrders


def test_a_worker_whose_post_is_gone_ends_before_it_has_begun() -> None:
    orders = ActorOrders(os.getppid(), "nobody meets here", 0, 0)  # not the one that starts it
    command = [sys.executable, "-m", "weft.engines.ray.worker_main"]
    ended = subprocess.run(command, input=msgspec.json.encode(orders), capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")
