"""Files that lie in the current folder are never imported instead of libraries."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from support.scripts.training_scripts import write

from weft.interpreter import python_code, python_module, script_path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "weft"
HOSTILE = ("weft", "torch", "numpy", "rich", "typer", "msgspec", "safetensors", "safetensors/torch", "neighbour")
SCRIPT = """
import numpy, safetensors, sys, weft
from neighbour import VALUE

w = numpy.zeros(2)
worker = weft.join(arrays={{"w": w}}, optimizer=weft.SGD(lr=0.1))
for rows in worker.share(8, batch_size=2):
    worker.step({{"w": w}}, samples=len(rows))
worker.report(value=VALUE, folders=sum(folder in ("", {here!r}) for folder in sys.path))
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which files have the names of libraries; whoever imports one leaves a mark."""
    folder = tmp_path / "hostile"
    (folder / "safetensors").mkdir(parents=True)
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'a').write({name!r})\nVALUE = 13\n")
    monkeypatch.chdir(folder)
    return folder


def _said(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize("has_safe_path", [sys.version_info >= (3, 11), False], ids=["with -P", "without -P"])
def test_modules_and_programs_import_only_what_is_installed(hostile: Path, has_safe_path: bool) -> None:
    command = python_module("weft", ["--version"], has_safe_path=has_safe_path)
    assert _said(command).startswith("weft ")
    code = "import sys, typer, rich; print(sys.path.count(''), rich.__name__, sys.argv)"
    assert _said(python_code(code, has_safe_path=has_safe_path)) == "0 rich ['-c']\n"
    assert not hostile.with_name("taken").exists()


def test_python_m_weft_leaves_the_current_folder_alone(hostile: Path) -> None:
    (hostile / "weft.py").unlink()  # Python itself would run it, before Weft has a say
    assert _said([sys.executable, "-m", "weft", "--version"]).startswith("weft ")
    assert not hostile.with_name("taken").exists()


@pytest.mark.parametrize("verb", ["run", "simulate"])
def test_commands_import_from_the_scripts_folder_and_not_from_the_current_one(
    hostile: Path, tmp_path: Path, verb: str
) -> None:
    script = write(tmp_path, SCRIPT.format(here=str(hostile)))
    (tmp_path / "neighbour.py").write_text("VALUE = 7\n")
    command = [str(Path(sys.executable).with_name("weft")), verb, str(script), "-n", "2", "--json", "out.json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not (tmp_path / "taken").exists(), (tmp_path / "taken").read_text()
    assert ended.returncode == 0, ended.stderr
    assert '"value": 7.0' in (hostile / "out.json").read_text()
    assert '"folders": 0.0' in (hostile / "out.json").read_text()


def test_a_script_finds_its_own_folder_first_as_under_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert script_path("/some/where/train.py") == ["/some/where", *sys.path]
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert script_path("/some/where/train.py") == sys.path


def test_every_python_process_is_started_with_a_path_that_is_safe() -> None:
    """`[sys.executable, ...]` stands in interpreter.py only; -I, which is for files, is as safe."""
    unsafe = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in SOURCES.rglob("*.py")
        if path.name != "interpreter.py" and "sys.executable" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List | ast.Tuple)
        and node.elts
        and ast.unparse(node.elts[0]) == "sys.executable"
        and ast.unparse(node.elts[1]) != "'-I'"
    ]
    assert unsafe == []
