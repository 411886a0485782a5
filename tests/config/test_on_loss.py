"""What happens when a worker is lost, in words."""

import pytest

from weft.config.on_loss import ON_LOSS, read_on_loss
from weft.core.errors import ConfigError


@pytest.mark.parametrize("word", ON_LOSS)
def test_words_are_taken_as_they_are(word: str) -> None:
    assert read_on_loss(word, "run.on_loss") == word


def test_other_words_are_refused_and_the_nearest_is_named() -> None:
    with pytest.raises(ConfigError) as refused:
        read_on_loss("shrnk", "--on-loss")
    assert str(refused.value) == "--on-loss is 'shrnk', but wants stop, shrink or replace.\n  Did you mean 'shrink'?"


def test_the_words_are_listed_once_when_none_is_near() -> None:
    with pytest.raises(ConfigError) as refused:
        read_on_loss("again", "--on-loss")
    assert str(refused.value) == (
        "--on-loss is 'again', but wants stop, shrink or replace.\n  Write one of them, e.g. replace."
    )
