"""Weft's extras: what is not installed is said with the line that installs it, and nothing else needs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from weft.config.extras import EXTRAS, advice_on_import, check_extra, has_extra
from weft.config.toml import load_toml
from weft.core.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
FURTHER = ("cryptography", "hypothesis", "networkx")
WITHOUT_EXTRAS = f"""
import sys
sys.modules.update(dict.fromkeys({[*EXTRAS.values(), *FURTHER]}))  # None: they cannot be imported
"""
EVERY_VERB = """
import typer
from weft.cli.app import VERBS, app_of, main

def verbs(command, *names):
    yield names
    for name, inner in getattr(command, "commands", {}).items():
        yield from verbs(inner, *names, name)

every = list(verbs(typer.main.get_command(app_of(VERBS))))
assert len(every) > 15, every
shown = [(*verb, "--help") for verb in every]
for names in [*shown, ("strategies",), ("codecs",), ("topology", "ring"), ("secret", "new")]:
    sys.argv = ["weft", *names]
    try:
        main()
    except SystemExit as left:
        assert not left.code, (names, left.code)
"""


def test_every_extra_that_installs_something_for_users_is_known() -> None:
    told = load_toml(ROOT / "pyproject.toml", "the project")["project"]["optional-dependencies"]
    assert set(told) == {*EXTRAS, "dev"}


def test_every_verb_starts_and_has_help_without_any_extra() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + EVERY_VERB], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_is_missing_is_said_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not has_extra("plot")
    with pytest.raises(ConfigError) as refused:
        check_extra("plot", "--plot")
    assert str(refused.value) == (
        "--plot needs matplotlib, which is not installed.\n  Install it: pip install 'weft[plot]'"
    )


@pytest.mark.parametrize(
    ("error", "text", "advice"),
    [
        ("ModuleNotFoundError", "No module named 'sklearn'", "\n  Install it: pip install 'weft[examples]'"),
        ("ModuleNotFoundError", "No module named 'torch'", "\n  Install it: pip install 'weft[torch]'"),
        ("ModuleNotFoundError", "No module named 'torch.nothing'", ""),
        ("ModuleNotFoundError", "No module named 'pandas'", ""),
        ("ValueError", "No module named 'torch'", ""),
    ],
)
def test_a_script_that_lacks_what_an_extra_has_is_told_so(error: str, text: str, advice: str) -> None:
    assert advice_on_import(error, text) == advice
