"""The repository lints itself: sizes, names, bans, and that tests mirror what they test."""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from weft.config.registry import STRATEGIES

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "weft"
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"

FILE_LINES_MAX = 400
MEDIAN_LINES_MAX = 150
FUNCTION_LINES_MAX = 60
EXAMPLE_LINES_MAX = 80

WITHOUT_A_MIRROR = {
    "papers": "sentences of papers",
    "support": "what tests share",
    "properties": "whole simulated worlds",
    "conformance": "everything that is registered",
    "core/test_rules_of_the_vocabulary.py": "the thirteen rules of docs/architecture.md",
    "sim/test_portions.py": "portions of a share in virtual time, whichever file of sim/ they concern",
    "collectives/test_sums.py": "all collectives, by what they add up to",
    "engines/real/test_departures.py": "workers that leave in order, in all that supervises them",
    "engines/test_slow_workers.py": "slow workers of real runs, whichever file finds them",
    "adapters/torch/test_traps.py": "traps of real torch scripts, whichever file they concern",
    "adapters/torch/test_real_face.py": "torch scripts on real workers, whichever file they concern",
    "cli/test_bad_input.py": "bad input of every kind, through the command line",
    "cli/test_huge_input.py": "input that would take all time or memory, through the command line",
}
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "handler"}
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle"}
ALL_INTERFACES = {"0.0.0.0", "::"}

PLAIN_WORDS = set(
    re.findall(
        r"\w+",
        """
    advice agreed api before between building calibrate check child choice compare core default diagnose
    diagnosis driving dry echo env evaluating exit explanation factory failure fd finding first foreign forked framed
    function hop initial interface job json lambda late launch load local look machine main measure memory metric
    namespace netem network off once orderly output param passing pause plain probe process processor real reduce
    resource returned runner setting short sibling simulated slowdown source stall state stop stopped timeout
    tracer training upload value waiting
    """,
    )
)
"""What modules of engines/ and runtime/ may be called besides the words of the glossary; no metaphors."""
EXCUSES = {"skip", "skipif", "xfail", "flaky", "importorskip"}


def python_files(*folders: str) -> list[Path]:
    """All Python files of these folders of the repository."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


ALL = python_files("src", "tests", "examples", "benchmarks", "docs")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def walked(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


def num_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def where(path: Path, node: Any = None) -> str:
    place = path.relative_to(ROOT).as_posix()
    return place if node is None else f"{place}:{node.lineno}"


def nodes(paths: list[Path], *kinds: type[ast.AST]) -> Iterator[tuple[Path, Any]]:
    """Every node of these kinds with its file."""
    for path in paths:
        yield from ((path, node) for node in walked(path) if isinstance(node, kinds))


def called(node: Any) -> str:
    """The last word of what a call calls: 'raises' of pytest.raises(...)."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_the_first_line_of_every_file_says_why_it_exists() -> None:
    silent = [where(path) for path in ALL if not ast.get_docstring(tree(path)) or tree(path).body[0].lineno != 1]
    assert silent == []


def test_files_are_small() -> None:
    assert [where(path) for path in ALL if num_lines(path) > FILE_LINES_MAX] == []
    assert median(num_lines(path) for path in python_files("src")) < MEDIAN_LINES_MAX


def test_functions_are_short() -> None:
    functions = nodes(ALL, ast.FunctionDef, ast.AsyncFunctionDef)
    long = [where(path, node) for path, node in functions if node.end_lineno - node.lineno + 1 >= FUNCTION_LINES_MAX]
    assert long == []


def test_names_say_something() -> None:
    def words(name: str) -> set[str]:
        spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
        return {word.lower() for word in spaced.replace("_", " ").split()}

    modules = [where(path) for path in ALL if words(path.stem) & EMPTY_NAMES]
    classes = [where(path, node) for path, node in nodes(ALL, ast.ClassDef) if words(node.name) & EMPTY_NAMES]
    assert modules + classes == []


def test_no_two_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = {}
    for path, node in nodes(python_files("src"), ast.ClassDef):
        places.setdefault(node.name, []).append(where(path, node))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def stems(word: str) -> set[str]:
    """A word as it is, and without the ending of a plural."""
    return {word, word.removesuffix("s"), word.removesuffix("es")}


def test_modules_of_engines_and_runtime_are_called_by_plain_words_or_those_of_the_glossary() -> None:
    rows = [line for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    known = {stem for row in rows for word in re.findall(r"[a-z]+", row.split("|")[1].lower()) for stem in stems(word)}
    assert len(known) > 100
    modules = [path for path in python_files("src/weft/engines", "src/weft/runtime") if path.name != "__main__.py"]
    names = {path.parent.name if path.name == "__init__.py" else path.stem: path for path in modules}
    private = {
        where(path): word
        for name, path in names.items()
        for word in name.split("_")
        if not stems(word) & (known | PLAIN_WORDS)
    }
    assert private == {}


def words_left(path: Path) -> Iterator[str]:
    """Comments and strings that say that something is not done."""
    if not any(word in path.read_text(encoding="utf-8") for word in UNFINISHED):
        return
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING) and any(word in token.string for word in UNFINISHED):
                yield f"{where(path)}:{token.start[0]}"


def test_nothing_is_left_unfinished() -> None:
    assert [place for path in ALL for place in words_left(path)] == []


def imported(node: Any) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").split(".")[0]}
    return {alias.name.split(".")[0] for alias in node.names}


def test_nothing_is_unpickled() -> None:
    found = [
        where(p, n) for p, n in nodes(python_files("src"), ast.Import, ast.ImportFrom) if imported(n) & UNSAFE_MODULES
    ]
    unchecked = [
        where(path, node)
        for path, node in nodes(python_files("src"), ast.keyword)
        if node.arg in ("weights_only", "allow_pickle") and ast.unparse(node.value) != str(node.arg == "weights_only")
    ]
    assert found + unchecked == []


def test_no_text_is_run_as_code() -> None:
    everywhere = [
        where(p, n) for p, n in nodes(ALL, ast.Call) if isinstance(n.func, ast.Name) and n.func.id in ("eval", "exec")
    ]
    assert everywhere == []


def test_nothing_listens_on_all_interfaces() -> None:
    named = [where(p, n) for p, n in nodes(python_files("src"), ast.Constant) if n.value in ALL_INTERFACES]
    bound = [
        where(path, node)
        for path, node in nodes(python_files("src"), ast.Call)
        if called(node) in ("bind", "create_server", "start_server")
        and any(ast.unparse(arg).startswith(("('',", '("",')) for arg in node.args)
    ]
    assert named + bound == []


def test_tests_have_no_excuses_and_do_not_guess_how_long_things_take() -> None:
    tests = [path for path in python_files("tests") if path != Path(__file__)]
    excuses = [where(p, n) for p, n in nodes(tests, ast.Attribute, ast.Name) if called(n) in EXCUSES]
    sleeps = [where(p, n) for p, n in nodes(tests, ast.Call) if called(n) == "sleep"]
    assert excuses + sleeps == []


def asserts(function: ast.FunctionDef) -> bool:
    """It asserts, expects an error or a warning, or calls what does."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and called(node) in ("raises", "warns"))
        or (isinstance(node, ast.Call) and called(node).startswith(("assert_", "check_")))
        for node in ast.walk(function)
    )


def test_every_test_asserts_something() -> None:
    tests = [(p, n) for p, n in nodes(python_files("tests"), ast.FunctionDef) if n.name.startswith("test_")]
    assert len(tests) > 100
    assert [where(path, node) for path, node in tests if not asserts(node)] == []


def test_names_of_tests_are_sentences() -> None:
    tests = [(p, n) for p, n in nodes(python_files("tests"), ast.FunctionDef) if n.name.startswith("test_")]
    short = [f"{where(path, node)} {node.name}" for path, node in tests if node.name.count("_") < 2]
    assert short == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short_and_open_with_the_command_that_runs_them(path: Path) -> None:
    assert num_lines(path) < EXAMPLE_LINES_MAX
    _, blank, command, *_ = (ast.get_docstring(tree(path)) or "").splitlines()
    assert (blank, command) == ("", f"python examples/{path.name}")
    assert (TESTS / "examples" / f"test_{path.name}").is_file()


def mirrored(test: Path) -> Path:
    """The file that a test file tests."""
    place = test.relative_to(TESTS)
    name = place.name.removeprefix("test_")
    return (ROOT if place.parts[0] == "examples" else SRC) / place.with_name(name)


def test_tests_mirror_what_they_test() -> None:
    lost = [
        where(test)
        for test in sorted(TESTS.rglob("test_*.py"))
        if test.parent != TESTS
        and not {test.relative_to(TESTS).parts[0], test.relative_to(TESTS).as_posix()} & WITHOUT_A_MIRROR.keys()
        and not mirrored(test).is_file()
    ]
    assert lost == []


def test_exceptions_to_the_mirror_are_still_needed() -> None:
    assert [place for place in WITHOUT_A_MIRROR if not (TESTS / place).exists()] == []


def test_every_file_with_code_has_a_test_file() -> None:
    sources = [path for path in python_files("src") if not path.name.startswith("__")]
    untested = [
        where(path) for path in sources if not (TESTS / path.relative_to(SRC).parent / f"test_{path.name}").is_file()
    ]
    assert untested == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_readme_has_a_line_for_every_strategy(name: str) -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.startswith(f"| `{name}` |")]) == 1
