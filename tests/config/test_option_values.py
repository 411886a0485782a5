"""What the texts of options mean."""

from pathlib import Path

import pytest

from weft.config import option_values
from weft.config.devices import FakeKind
from weft.core.errors import ConfigError


def test_texts_become_what_they_say() -> None:
    where = "--set a.b"
    assert option_values.truth("True", where)
    assert (option_values.whole("3", where), option_values.size("4KiB", where)) == (3, 4096)
    assert option_values.words("cpu=1", where) == "cpu=1"
    assert option_values.path("a/b.json", where) == Path("a/b.json")
    assert (option_values.place("host", where), option_values.collective("auto", where)) == ("host", "auto")
    assert option_values.devices("1:fake", where) == ((1, FakeKind()),)


def test_hiccups_are_a_share_and_a_factor() -> None:
    assert option_values.share_and_factor("0.1:8", "--set worker.hiccups") == (0.1, 8.0)
    for text in ("8", "0.1:8:9", "a:b"):
        with pytest.raises(ConfigError) as refused:
            option_values.share_and_factor(text, "--set worker.hiccups")
        assert str(refused.value) == (
            f"--set worker.hiccups got '{text}', but wants SHARE:FACTOR.\n  Write e.g. --set worker.hiccups=0.1:8."
        )


@pytest.mark.parametrize(("share", "factor"), [(1.5, 2.0), (-0.1, 2.0), (0.1, 0.5), (0.1, float("inf"))])
def test_hiccups_that_cannot_be_are_refused(share: float, factor: float) -> None:
    with pytest.raises(ConfigError) as refused:
        option_values.check_hiccups(share, factor)
    assert str(refused.value) == (
        f"worker.hiccups={share:g}:{factor:g} wants a share from 0 to 1 and a factor of at least 1.\n"
        "  Write e.g. worker.hiccups=0.1:8 to let one iteration in ten take 8 times as long."
    )
