"""weft head leads what torchrun has started; tests/engines/hosts/test_join.py sees it at work."""

import subprocess
import sys

from support.processes.commands import weft_command


def test_nobody_is_shown_a_verb_that_is_not_for_people() -> None:
    shown = weft_command("--help")
    assert "head" not in shown.out
    assert "doctor" in shown.out


def test_it_takes_orders_from_standard_input_only() -> None:
    run = subprocess.run([sys.executable, "-m", "weft", "head"], input=b"{}", capture_output=True, check=False)
    assert run.returncode != 0
    assert b"missing required field" in run.stderr
