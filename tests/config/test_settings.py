"""Settings of a run, from wherever they are said."""

import pytest

from weft.config.settings import Settings, read_settings
from weft.core.errors import ConfigError


def test_the_first_that_says_a_setting_wins_and_the_rest_is_filled_in() -> None:
    first = Settings(strategy=("ssp",), seed=0)
    second = Settings(strategy=("gossip",), seed=7, workers=4)
    assert first.over(second) == Settings(strategy=("ssp",), seed=0, workers=4)


def test_options_of_both_are_kept_and_of_the_same_one_the_first_that_says_it_is_the_last_that_counts() -> None:
    first, second = Settings(set=("worker.threads=2",)), Settings(set=("worker.threads=1", "reduce.collective=ring"))
    assert first.over(second).set == ("worker.threads=1", "reduce.collective=ring", "worker.threads=2")
    assert first.over(Settings()).set == Settings().over(first).set == ("worker.threads=2",)


def test_settings_are_read_from_text_as_from_toml() -> None:
    typed = {
        "strategy": ["ssp", "gossip"],
        "cluster": "edge",
        "collective": "ring",
        "compress": "topk(0.01)",
        "workers": 4,
        "seed": 1,
        "steps": 9,
        "share": "stealing",
        "transport": "torch",
        "set": ["worker.threads=2"],
    }
    chosen = ("reduce.collective=ring", "worker.threads=2")
    expected = Settings(("ssp", "gossip"), "edge", "topk(0.01)", 4, 1, 9, "stealing", "torch", chosen)
    assert read_settings(typed, "weft.toml") == expected
    assert read_settings({"strategy": "ssp", "workers": "4"}, "environment") == Settings(("ssp",), workers=4)


def test_an_unknown_key_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings({"stategy": "ssp"}, "'weft.toml'")
    assert str(refused.value) == "'weft.toml' has an unknown key 'stategy'.\n  Did you mean 'strategy'?"


@pytest.mark.parametrize("value", ["four", "4.5", 4.0, True, [4]])
def test_a_number_of_workers_is_whole(value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings({"workers": value}, "weft.toml")
    assert str(refused.value) == f"weft.toml: workers is '{value}', but wants a whole number.\n  Write e.g. 4."


@pytest.mark.parametrize("value", [3, [], [1], {}])
def test_strategies_are_names(value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings({"strategy": value}, "weft.toml")
    assert str(refused.value) == (
        f'weft.toml: strategy is {value!r}, but wants a name or a list of names.\n  Write e.g. "gossip".'
    )


def test_options_are_a_list_or_words() -> None:
    told = read_settings({"set": "worker.threads=2 network.trusted=true"}, "environment")
    assert told.set == ("worker.threads=2", "network.trusted=true")
    with pytest.raises(ConfigError, match=r"weft.toml: set is 3, but wants options"):
        read_settings({"set": 3}, "weft.toml")
