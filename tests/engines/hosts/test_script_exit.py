"""The code of a script that Weft has not started: found before its process ends, whichever way it leaves."""

import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = """
import atexit
import sys
from weft.engines.hosts.script_exit import ScriptExit

watch = ScriptExit()
atexit.register(lambda: print(repr(watch.code)))

def leave():
    raise SystemExit(5)

"""
CAUGHT = """
try:
    sys.exit(3)
except SystemExit as error:
    kept = error
"""


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("print('well', flush=True)", "None"),
        ("sys.exit()", "None"),
        ("sys.exit(0)", "0"),
        ("sys.exit(3)", "3"),
        ("exit(4)", "4"),
        ("sys.exit('no data')", "'no data'"),
        ("raise SystemExit", "None"),
        ("raise SystemExit(1)", "1"),
        ("leave()", "5"),
        (CAUGHT, "None"),
        (CAUGHT + "raise SystemExit(6)", "6"),
    ],
)
def test_a_script_leaves_with_the_code_that_it_says_and_with_none_at_its_end(
    ends: str, code: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(WATCHED + ends + "\n")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.splitlines()[-1] == code, ended.stderr


def test_of_a_module_the_functions_that_leave_are_known(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WATCHED + "sys.exit(3)\n")
    command = [sys.executable, "-m", "script"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert ended.stdout == "3\n", ended.stderr
