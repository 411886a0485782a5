"""weft strategies."""

import pytest
from support.processes.commands import weft_command
from support.ui.listings import cells_of

from weft.config.registry import STRATEGIES, default_text, parameters


@pytest.fixture(scope="module")
def listing() -> str:
    ended = weft_command("strategies")
    assert (ended.code, ended.err) == (0, "")
    return ended.out


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_listed_with_its_parameters_and_its_method(listing: str, name: str) -> None:
    told = cells_of(listing, name)
    for parameter in parameters(STRATEGIES[name]):
        assert f"{parameter}={default_text(STRATEGIES[name], parameter)}" in told[1]
    method = STRATEGIES[name].entry.method.split()[0]
    assert told[2].startswith(method)


def test_it_says_how_to_use_one(listing: str) -> None:
    assert listing.rstrip().endswith("with parameters: --strategy 'gossip(topology=torus)'.")


def test_on_a_narrow_screen_they_are_a_list_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.show.screen.screen.width", 80)
    lines = weft_command("strategies").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 6 * len(STRATEGIES)
    for name, cls in STRATEGIES.items():
        assert any(line.startswith(f"{name} ") for line in lines)
        for parameter in parameters(cls):
            assert f"{parameter}={default_text(cls, parameter)}" in "".join(line.strip() + " " for line in lines)
