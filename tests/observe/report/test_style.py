"""The style sheet of a report."""

import re

from weft.observe.report.style import style


def test_every_variable_that_is_used_is_defined_in_both_themes() -> None:
    sheet = style()
    light = sheet.partition("@media")[0]
    dark = sheet.partition("prefers-color-scheme:dark){")[2].partition("}}")[0]
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", sheet)) - {"k"}
    assert used <= set(re.findall(r"--([a-z0-9-]+):", light))
    assert set(re.findall(r"--([a-z0-9-]+):", dark)) == set(re.findall(r"--([a-z0-9-]+):", light))


def test_the_sheet_asks_for_nothing_from_elsewhere() -> None:
    assert not re.search(r"url\(|@import|@font-face|https?:", style())
    assert style().count("{") == style().count("}")
