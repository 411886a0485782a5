"""weft codecs."""

import pytest
from support.processes.commands import weft_command
from support.ui.listings import cells_of

from weft.cli.verbs.codecs import times_fewer
from weft.codecs import DGC, FP16, OneBit, PowerSGD, Threshold, TopK
from weft.config.registry import CODECS, default_text, parameters


@pytest.fixture(scope="module")
def listing() -> str:
    ended = weft_command("codecs")
    assert (ended.code, ended.err) == (0, "")
    return ended.out


@pytest.mark.parametrize("name", CODECS)
def test_every_codec_is_listed_with_its_parameters(listing: str, name: str) -> None:
    told = cells_of(listing, name)
    for parameter in parameters(CODECS[name]):
        assert f"{parameter}={default_text(CODECS[name], parameter)}" in told[1]


def test_it_says_how_to_use_one(listing: str) -> None:
    assert "--compress 'topk(0.01) | qsgd(levels=7)'" in listing.replace("\n", " ")


def test_how_many_times_fewer_bytes_is_by_the_declared_sizes() -> None:
    assert times_fewer(FP16()) == "2.0"
    assert times_fewer(OneBit()) == "31.0"
    assert times_fewer(TopK(0.01)) == "66.6"
    assert float(times_fewer(DGC(0.001)).replace(",", "")) > 600
    assert times_fewer(PowerSGD(2)) == "256.0"
    assert times_fewer(Threshold(0.1)) == "varies"


def test_on_a_narrow_screen_they_are_a_list_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.show.screen.screen.width", 80)
    lines = weft_command("codecs").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 6 * len(CODECS)
    for name, cls in CODECS.items():
        assert any(line.startswith(f"{name} ") for line in lines)
        for parameter in parameters(cls):
            assert f"{parameter}={default_text(cls, parameter)}" in "".join(line.strip() + " " for line in lines)
