"""A slow network, as it is written on the command line and shown."""

import pytest

from weft.config.network import Network, read_network
from weft.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "network", "shown"),
    [
        ("100mbit,10ms", Network(12.5e6, 0.01), "100 Mbit/s, 10 ms"),
        ("1.5Mbit/s, 0s", Network(187.5e3, 0.0), "1.5 Mbit/s, 0 ms"),
        ("1gbit,500us,1%", Network(125e6, 0.0005, 0.01), "1 Gbit/s, 0.5 ms, 1 % lost"),
        ("64kbit,1s,.005", Network(8e3, 1.0, 0.005), "64 kbit/s, 1000 ms, 0.5 % lost"),
    ],
)
def test_a_network_is_a_rate_a_delay_and_perhaps_a_loss(text: str, network: Network, shown: str) -> None:
    assert (read_network(text), str(network)) == (network, shown)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("100mbit", "--net got '100mbit', but wants RATE,DELAY or RATE,DELAY,LOSS.\n  Write e.g. --net 100mbit,10ms."),
        ("1,,2", "--net got '1,,2', but wants RATE,DELAY or RATE,DELAY,LOSS.\n  Write e.g. --net 100mbit,10ms."),
        (
            "100,10ms",
            "--net: the rate is '100', but wants a number with one of the units bit, kbit, mbit, gbit, "
            'bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s.\n  Write e.g. "100mbit".',
        ),
        (
            "100mbit,10",
            "--net: the delay is '10', but wants a number with one of the units s, ms, us, ns.\n  Write e.g. \"30ms\".",
        ),
        (
            "1mbit,1ms,x",
            "--net: the loss is 'x', but wants a share of all packets.\n  Write e.g. --net 100mbit,10ms,1%.",
        ),
        (
            "1mbit,1ms,51%",
            "--net: the loss is 0.51, but must be from 0 to 0.5, or nothing gets through.\n"
            "  Write e.g. --net 100mbit,10ms,1%.",
        ),
        ("1kbit,1ms", "--net: a link carries at least 8 kbit/s.\n  Write e.g. --net 1mbit,10ms."),
        ("1mbit,11s", "--net: the delay is 11 s, but at most 10 s.\n  Write e.g. --net 100mbit,10ms."),
    ],
)
def test_what_is_no_network_is_refused_with_what_to_write(text: str, because: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_network(text)
    assert str(refused.value) == because
