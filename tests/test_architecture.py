"""The documents of the architecture name what is there: paths, tests, the thirteen rules, the decision records."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC, TESTS, DOCS = ROOT / "src" / "weft", ROOT / "tests", ROOT / "docs"
ARCHITECTURE = DOCS / "architecture.md"
NUM_RULES = 13

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
DRAWN_PATH = re.compile(r"\b[\w/]+/\w+\.py\b")
RULE = re.compile(r"\brules? (\d+)", re.IGNORECASE)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named_paths(document: Path) -> list[str]:
    """What stands in backticks, or in a drawing, and looks like a path: it ends in .py, or has a slash."""
    text = text_of(document)
    words = IN_BACKTICKS.findall(FENCED.sub("", text))
    paths = [word for word in words if PATH.fullmatch(word) and ("/" in word or word.endswith(".py"))]
    return paths + [path for drawing in FENCED.findall(text) for path in DRAWN_PATH.findall(drawing)]


def is_there(path: str) -> bool:
    """It exists in the repository, or under src/weft; what ends in a slash is a folder."""
    found = [place / path for place in (ROOT, SRC) if (place / path).exists()]
    return bool(found) and (found[0].is_dir() or not path.endswith("/"))


@cache
def known_tests() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^def (test_\w+)", text_of(path), re.MULTILINE):
            found.setdefault(name, []).append(path)
    return found


@pytest.mark.parametrize(
    ("name", "num_paths_min"), [("docs/architecture.md", 100), ("docs/glossary.md", 100), ("SECURITY.md", 5)]
)
def test_every_path_that_a_document_names_exists(name: str, num_paths_min: int) -> None:
    paths = named_paths(ROOT / name)
    assert len(paths) > num_paths_min
    assert [path for path in paths if not is_there(path)] == []


def test_a_path_that_does_not_exist_would_be_found() -> None:
    assert is_there("runtime/driver.py")
    assert is_there("tests/papers/")
    assert not is_there("runtime/drivers.py")
    assert not is_there("runtime/driver.py/")


def test_every_test_that_the_architecture_names_exists() -> None:
    named = [word for word in IN_BACKTICKS.findall(text_of(ARCHITECTURE)) if re.fullmatch(r"test_\w+", word)]
    assert len(named) > NUM_RULES
    assert [name for name in named if name not in known_tests()] == []


@pytest.mark.parametrize("number", range(1, NUM_RULES + 1))
def test_a_rule_has_a_heading_and_names_all_its_tests(number: int) -> None:
    (section,) = re.findall(rf"^### Rule {number}: (.*?)(?=^##)", text_of(ARCHITECTURE), re.DOTALL | re.MULTILINE)
    guards = {name for name in known_tests() if name.startswith(f"test_rule_{number}_")}
    assert guards
    assert {name for name in guards if f"`{name}`" not in section} == set()


def test_there_are_no_rules_besides() -> None:
    numbers = re.findall(r"^### Rule (\d+):", text_of(ARCHITECTURE), re.MULTILINE)
    assert numbers == [str(number) for number in range(1, NUM_RULES + 1)]


def test_whoever_cites_a_rule_says_where_the_rules_are() -> None:
    sources = [path for folder in (SRC, TESTS) for path in sorted(folder.rglob("*.py")) if path != Path(__file__)]
    citing = {path: RULE.findall(text_of(path)) for path in sources}
    assert sum(map(len, citing.values())) > NUM_RULES
    assert {n for numbers in citing.values() for n in numbers if not 1 <= int(n) <= NUM_RULES} == set()
    lost = [path for path, numbers in citing.items() if numbers and "docs/architecture.md" not in text_of(path)]
    assert [path.relative_to(ROOT).as_posix() for path in lost] == []


def test_sources_and_tests_refer_to_documents_of_the_repository_only() -> None:
    sources = [path for folder in (SRC, TESTS) for path in sorted(folder.rglob("*.py"))]
    named = {(path, name) for path in sources for name in re.findall(r"\b[A-Z]{4,}\.md\b", text_of(path))}
    assert [(path.name, name) for path, name in sorted(named) if not (ROOT / name).is_file()] == []


ROW = re.compile(r"^\| \[(\d{4})\]\(([\w.-]+)\) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
UNUSED = re.compile(r"^\| (\d{4}) \| \(none\) \|", re.MULTILINE)
STATUS = re.compile(r"accepted(; (extended|amended) by .+|; not yet run on a GPU)?|superseded by \d{4}")


def test_the_index_of_decisions_lists_every_record_by_its_title_and_no_other() -> None:
    records = {path.name: path for path in (DOCS / "decisions").glob("[0-9]*.md")}
    listed = {file: (number, title) for number, file, title, *_ in ROW.findall(text_of(DOCS / "decisions/README.md"))}
    assert listed.keys() == records.keys()
    headings = {
        name: tuple(text_of(path).splitlines()[0].removeprefix("# ").split(": ", 1)) for name, path in records.items()
    }
    assert listed == headings


def test_the_index_of_decisions_has_every_number_in_order_and_a_status_that_leads_on() -> None:
    index = text_of(DOCS / "decisions/README.md")
    rows = ROW.findall(index)
    numbers = [number for number, *_ in rows]
    assert sorted(numbers + UNUSED.findall(index)) == [f"{n:04d}" for n in range(1, int(numbers[-1]) + 1)]
    assert [status for *_, status, _ in rows if not STATUS.fullmatch(status)] == []
    named = {other for *_, status, _ in rows for other in re.findall(r"\d{4}", status)}
    assert named <= set(numbers)


OLD_WORDS = (
    *("attendant", "crew", "diary", "errand", "homecoming", "nursery", "plant", "porter", "steward", "trunk"),
    *("ushering", "vigil"),
)
"""What processes and files were once called; docs/decisions/README.md maps them to what they are called now."""


def test_the_glossary_has_each_word_once_with_a_meaning_and_a_place() -> None:
    rows = [line.split("|")[1:-1] for line in text_of(DOCS / "glossary.md").splitlines() if line.startswith("| ")]
    entries = [[cell.strip() for cell in row] for row in rows if row[0].strip() != "word"]
    assert len(entries) > 100
    assert [entry for entry in entries if len(entry) != 3 or not all(entry) or not entry[2].startswith("`")] == []
    words = [word for entry in entries for word in entry[0].split(", ")]
    assert sorted(words) == sorted(set(words))


def test_documents_speak_the_words_of_the_tree() -> None:
    pages = [*DOCS.glob("*.md"), *ROOT.glob("*.md")]
    old = re.compile(rf"(?<![\w-])({'|'.join(OLD_WORDS)})s?(?![\w-])", re.IGNORECASE)
    assert [(page.name, found) for page in sorted(pages) for found in old.findall(text_of(page))] == []


def test_the_citation_has_the_version_of_the_package() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', text_of(ROOT / "pyproject.toml"), re.MULTILINE)
    assert re.findall(r"^version: (.+)$", text_of(ROOT / "CITATION.cff"), re.MULTILINE) == [version]


def test_what_runs_before_a_commit_is_local() -> None:
    config = text_of(ROOT / ".pre-commit-config.yaml")
    assert set(re.findall(r"\brepo: (\S+)", config)) == {"local"}
    assert {"ruff check", "ruff format --check", "mypy"} == set(re.findall(r"^ +name: (.+)$", config, re.MULTILINE))
