"""The process of a run's controller; tests/engines/hosts/test_bootstrap.py sees it at work."""

import subprocess
import sys


def test_it_takes_orders_from_standard_input_only() -> None:
    command = [sys.executable, "-m", "weft.controller_main"]
    run = subprocess.run(command, input=b"{}", capture_output=True, check=False)
    assert run.returncode != 0
    assert b"missing required field" in run.stderr
