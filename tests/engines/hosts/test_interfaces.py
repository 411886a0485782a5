"""Which address of a host the others shall use."""

import pytest

from weft.core.errors import ConfigError
from weft.engines.hosts.interfaces import interface_of, own_address


def test_the_way_to_the_rendezvous_decides() -> None:
    assert own_address(None, "127.0.0.1", 1) == "127.0.0.1"


def test_an_interface_or_an_address_may_be_named() -> None:
    assert own_address("lo", "192.0.2.1", 1) == "127.0.0.1"
    assert own_address("10.1.2.3", "192.0.2.1", 1) == "10.1.2.3"
    assert own_address("fe80::1", "192.0.2.1", 1) == "fe80::1"


def test_no_such_interface_and_no_such_rendezvous() -> None:
    with pytest.raises(ConfigError, match=r"WEFT_INTERFACE is 'warp9', .*\n  This host has: .*lo"):
        own_address("warp9", "127.0.0.1", 1)
    with pytest.raises(ConfigError, match=r"no way from this host to 'no.such.host.invalid'"):
        own_address(None, "no.such.host.invalid", 1)


def test_the_interface_that_has_an_address_is_found() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") == ""
