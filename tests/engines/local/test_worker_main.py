"""The process of one worker: its script runs as python would run it, with its own arguments and alike seeds."""

from pathlib import Path

import pytest
from support.processes.real import Heard, real

from weft.core.errors import NodeLost

SCRIPT = """
import os, random, signal, sys
import numpy as np
import weft
from beside import VALUE

drawn = random.random(), np.random.rand()
w = np.zeros(2)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
worker.step({"w": w}, samples=1)
print(__name__, sys.argv[1:], VALUE, *drawn, signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""


def heard_from(folder: Path, script: str, *arguments: str, **options: int) -> list[str]:
    """What the workers printed, each line once for every worker that did."""
    (folder / "beside.py").write_text("VALUE = 42\n")
    (folder / "train.py").write_text(script)
    heard = Heard()
    real(folder / "train.py", 2, None, *arguments, heard=heard, **options)
    return [text for _, text, _ in heard.lines]


def test_a_script_runs_as_main_with_its_arguments_and_what_lies_beside_it(tmp_path: Path) -> None:
    first, second = heard_from(tmp_path, SCRIPT, "--lr", "0.1")
    assert first.startswith("__main__ ['--lr', '0.1'] 42 ")
    assert first.endswith(" True")  # Ctrl-C is the launcher's business
    assert first == second  # seeds are alike until the workers join


def test_another_seed_gives_other_random_numbers(tmp_path: Path) -> None:
    assert heard_from(tmp_path, SCRIPT)[0] != heard_from(tmp_path, SCRIPT, seed=1)[0]


def test_a_script_may_leave_with_code_zero(tmp_path: Path) -> None:
    assert len(heard_from(tmp_path, SCRIPT + "sys.exit(0)\n")) == 2


@pytest.mark.parametrize(
    ("leaves", "told"),
    [("sys.exit(3)", r"the script called sys.exit\(3\)"), ("sys.exit('why')", r"left at step 1: why")],
)
def test_a_script_that_leaves_otherwise_has_failed(leaves: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(NodeLost, match=told):
        heard_from(tmp_path, SCRIPT + leaves + "\n")


def test_a_process_that_ends_without_a_word_is_named_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(NodeLost, match=r"^worker [01] .* its process ended with code 7\.$".replace("$", "")):
        heard_from(tmp_path, SCRIPT + "os._exit(7)\n")
