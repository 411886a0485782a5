"""What happens when a gradient is not finite, in words."""

import pytest

from weft.config.on_nan import ON_NAN, read_on_nan
from weft.core.errors import ConfigError


@pytest.mark.parametrize("word", ON_NAN)
def test_words_are_taken_as_they_are(word: str) -> None:
    assert read_on_nan(word, "run.on_nan") == word


def test_other_words_are_refused_and_the_nearest_is_named() -> None:
    with pytest.raises(ConfigError) as refused:
        read_on_nan("stopp", "--on-nan")
    assert str(refused.value) == "--on-nan is 'stopp', but wants exclude or stop.\n  Did you mean 'stop'?"


def test_the_words_are_listed_once_when_none_is_near() -> None:
    with pytest.raises(ConfigError) as refused:
        read_on_nan("replace", "--on-nan")
    assert str(refused.value) == "--on-nan is 'replace', but wants exclude or stop.\n  Write one of them."
