"""What strategies with parameter servers refuse alike."""

import pytest

from weft.core.errors import ConfigError
from weft.strategies.shards import check_servers


def test_a_number_of_servers_that_cannot_hold_the_parameters_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        check_servers("ps", 0)
    assert str(caught.value) == "servers is 0, but the parameters must live on at least 1.\n  Use 'ps(servers=1)'."


def test_one_server_is_enough() -> None:
    assert check_servers("ps", 1) is None
