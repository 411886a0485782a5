"""A slow network, as it is written on the command line and shown."""

import pytest

from weft.config.network import EmulatedNetwork, read_network
from weft.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "network", "shown"),
    [
        ("100mbit,10ms", EmulatedNetwork(12.5e6, 0.01), "100 Mbit/s, 10 ms"),
        ("1.5Mbit/s, 0s", EmulatedNetwork(187.5e3, 0.0), "1.5 Mbit/s, 0 ms"),
        ("1gbit,500us,1%", EmulatedNetwork(125e6, 0.0005, 0.01), "1 Gbit/s, 0.5 ms, 1 % lost"),
        ("64kbit,1s,.005", EmulatedNetwork(8e3, 1.0, 0.005), "64 kbit/s, 1000 ms, 0.5 % lost"),
    ],
)
def test_a_network_is_a_rate_a_delay_and_perhaps_a_loss(text: str, network: EmulatedNetwork, shown: str) -> None:
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


def test_a_worker_may_have_a_link_of_its_own() -> None:
    network = read_network("2:20mbit,30ms", "1gbit,1ms", "0: 1gbit,5ms,1%")
    assert network == EmulatedNetwork(
        125e6, 0.001, own=((0, EmulatedNetwork(125e6, 0.005, 0.01)), (2, EmulatedNetwork(2.5e6, 0.03)))
    )
    assert [network.link(worker) for worker in (1, 2)] == [EmulatedNetwork(125e6, 0.001), EmulatedNetwork(2.5e6, 0.03)]
    assert network.worst == EmulatedNetwork(2.5e6, 0.03, 0.01)
    assert str(network) == "1 Gbit/s, 1 ms; worker 0: 1 Gbit/s, 5 ms, 1 % lost; worker 2: 20 Mbit/s, 30 ms"


@pytest.mark.parametrize(
    ("texts", "because"),
    [
        (("2:20mbit,30ms",), "--net does not say the link of all other workers.\n  Write e.g. {both}."),
        (("1gbit,1ms", "1gbit,2ms"), "--net says several links for all workers.\n  Write e.g. {both}."),
        (("1gbit,1ms", "2:1gbit,1ms", "2:1gbit,2ms"), "--net says the link of worker 2 twice.\n  Say it once."),
        (
            ("1gbit,1ms", "x:1gbit,1ms"),
            "--net got 'x:1gbit,1ms', but 'x' is no worker's number.\n  Write e.g. --net 2:20mbit,30ms.",
        ),
        (("1gbit,1ms", "2:fast"), "--net got 'fast', but wants RATE,DELAY or RATE,DELAY,LOSS.\n  Write e.g. {all}."),
    ],
)
def test_links_that_contradict_each_other_or_lack_something_are_refused(texts: tuple[str, ...], because: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_network(*texts)
    everybody = "--net 100mbit,10ms"
    assert str(refused.value) == because.format(both=f"{everybody} --net 2:20mbit,30ms", all=everybody)
