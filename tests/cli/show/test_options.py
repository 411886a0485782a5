"""The list of what --set takes."""

import pytest
from support.processes.commands import weft_command

from weft.config.options import LEAVES


@pytest.mark.parametrize("verb", ["run", "compare", "simulate"])
def test_a_verb_lists_the_options_that_it_takes_and_nothing_is_run(verb: str) -> None:
    ended = weft_command(verb, "--set", "help")
    assert (ended.code, ended.err) == (0, "")
    title, *rows = ended.out.splitlines()
    assert title.rstrip() == f"options of weft {verb}, with examples"
    listed = [row.partition("=")[0] for row in rows if not row.startswith(" ")]
    assert listed == [*(key for key in LEAVES if f"weft {verb}" in LEAVES[key].takers), "strategy.NAME"]
    assert weft_command(verb, "train.py", "--set", "help") == ended
