"""What `make docs` writes is up to date, and the strategy of the documentation works as it stands."""

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from weft.cli.options.script_command import MOVED
from weft.config.options import LEAVES
from weft.config.registry import STRATEGIES

OF_OTHERS_TOO = {"--address"}
"""ray start and weft doctor have it."""
MOVED_FLAG = re.compile(rf"({'|'.join(sorted(MOVED.keys() - OF_OTHERS_TOO))})\b(?!-)")
DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    """What docs/picture.py defines."""
    return runpy.run_path(str(DOCS / "picture.py"))


def test_the_picture_is_what_was_measured_and_opens_the_readme(drawn: dict[str, Any]) -> None:
    report = json.loads(drawn["REPORT"].read_text(encoding="utf-8"))
    assert drawn["PICTURE"].read_text(encoding="utf-8") == drawn["picture"](report), "run make docs"
    first_screen = (DOCS.parent / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert f"({drawn['PICTURE'].relative_to(DOCS.parent)})" in first_screen
    for words in ("pip install", "make demo", "weft.join(model, optimizer)"):
        assert words in first_screen


def test_the_picture_has_a_bar_for_the_best_of_each_strategy_sorted_and_one_for_ddp(drawn: dict[str, Any]) -> None:
    seconds = {
        "gossip": 9.0,
        "ssp share=stealing": 5.0,
        "ssp": 4.0,
        "ddp": 8.6,
        "quorum(backups=1) share=stealing": 30.0,
    }
    rows = [{"contender": name, "seconds": value, "runs": [1] * len(name)} for name, value in seconds.items()]
    machine = {"cpu": "Z80 & co", "cores": 1, "date": "2026-01-01"}
    svg = ElementTree.fromstring(drawn["picture"]({"rows": rows, "machine": machine}))
    names = {"{http://www.w3.org/2000/svg}" + name for name in ("text", "rect")}
    assert {each.tag for each in svg} - names == {"{http://www.w3.org/2000/svg}title"}
    _, _, *words, foot = [each.text for each in svg if each.tag.endswith("text")]
    assert words == [
        *("ssp", "4 s", "2.1x as fast", "PyTorch DDP", "9 s", "gossip", "9 s", "about the same"),
        *("quorum", "backups=1, share=stealing", "30 s", "3.5x as long"),
    ]
    assert foot == "Shorter is better. Medians of 3 to 32 runs; Z80 & co, 1 cores, 2026-01-01."
    _, *bars = [(float(each.get("width", 0)), each.get("fill")) for each in svg if each.tag.endswith("rect")]
    assert bars == sorted(bars)
    assert [fill == drawn["THEIRS"] for _, fill in bars] == [False, True, False, False]


@pytest.fixture(scope="module")
def build() -> dict[str, Any]:
    """What docs/build.py defines."""
    return runpy.run_path(str(DOCS / "build.py"))


def test_the_readme_has_the_table_that_the_strategies_declare(build: dict[str, Any]) -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert build["strategies_table"]() in readme, "run make docs"
    assert build["with_table"](readme) == readme
    rows = [line for line in build["strategies_table"]().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(STRATEGIES)


def test_the_guide_has_the_table_that_the_options_declare(build: dict[str, Any]) -> None:
    guide = (DOCS / "guide.md").read_text(encoding="utf-8")
    assert build["options_table"]() in guide, "run make docs"
    assert build["with_options"](guide) == guide
    rows = [line for line in build["options_table"]().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(LEAVES)


PLACES = ["README.md", "Makefile", "examples/*.py", "benchmarks/*.py", "docs/*.md", "docs/*.py", "src/weft/**/*.py"]


def test_no_page_names_an_option_that_has_moved() -> None:
    pages = [page for place in PLACES for page in DOCS.parent.glob(place) if page.name != "script_command.py"]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    assert len(pages) > 100
    assert [line for line in lines if MOVED_FLAG.search(line)] == []


def test_the_page_of_strategies_is_what_they_declare(build: dict[str, Any]) -> None:
    assert (DOCS / "strategies.md").read_text(encoding="utf-8") == build["strategies_page"](), "run make docs"


def test_the_table_is_put_between_its_marks_and_nothing_else_changes(build: dict[str, Any]) -> None:
    begin, end = build["BEGIN"], build["END"]
    assert build["with_table"](f"before\n{begin}\nold\n{end}\nafter") == f"before\n{build['strategies_table']()}\nafter"


def test_the_page_says_under_which_codecs_a_promise_holds(build: dict[str, Any]) -> None:
    assert {"`staleness.stays_within`²", "`once.servers_apply_once`¹"} <= set(build["promises"]("ssp"))
    assert build["promises"]("hogwild") == ["`conservation.shared_replica_adds_up`"]


@pytest.mark.slow
def test_the_strategy_that_the_documentation_writes_passes_the_tests_that_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DOCS / "writing-a-strategy.md").read_text(encoding="utf-8")
    for name, block in zip(("averaging", "test_averaging"), page.split("```python\n")[1:], strict=True):
        (tmp_path / f"{name}.py").write_text(block.partition("```")[0], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "averaging", raising=False)
    defined = runpy.run_path(str(tmp_path / "test_averaging.py"))
    tests = [test for name, test in defined.items() if name.startswith("test_")]
    for test in tests:
        test()
    assert len(tests) == 4
