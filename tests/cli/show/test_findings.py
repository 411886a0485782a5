"""How findings are shown."""

import pytest

from weft.cli.show.findings import show_findings
from weft.cli.show.screen import screen
from weft.engines.diagnose.machine import Finding


def test_what_was_found_is_taken_as_it_is_and_what_to_do_stands_below() -> None:
    findings = [Finding("one", "ok", "[bold]fine"), Finding("two", "bad", "not [so] fine", "Mend [it].")]
    with screen.capture() as shown:
        show_findings(findings)
    assert [line.rstrip() for line in shown.get().splitlines()] == [
        "ok   one  [bold]fine",
        "BAD  two  not [so] fine",
        "          Mend [it].",
    ]


@pytest.mark.parametrize("verdict", ["ok", "warn", "bad"])
def test_every_verdict_has_a_mark(verdict: str) -> None:
    with screen.capture() as shown:
        show_findings([Finding("name", verdict, "found")])  # type: ignore[arg-type]
    assert shown.get().lower().startswith(verdict)
