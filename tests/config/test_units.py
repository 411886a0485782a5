"""Friendly units at the edge."""

import pytest

from weft.config.units import bytes_per_s, interval_seconds, link_rate, seconds
from weft.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30ms", 0.03),
        ("50us", 5e-5),
        ("2 s", 2.0),
        ("7ns", 7e-9),
        (".5ms", 5e-4),
        ("1e-3s", 1e-3),
        (0.25, 0.25),
        (3, 3.0),
    ],
)
def test_times_become_seconds(text: object, value: float) -> None:
    assert seconds(text, "latency") == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8bit/s", 1.0),
        ("1kbit/s", 125.0),
        ("20Mbit/s", 2.5e6),
        ("10Gbit/s", 1.25e9),
        ("1B/s", 1.0),
        ("2kB/s", 2e3),
        ("3MB/s", 3e6),
        ("5GB/s", 5e9),
        (1e6, 1e6),
    ],
)
def test_bandwidths_become_bytes_per_second_and_a_byte_has_eight_bits(text: object, value: float) -> None:
    assert bytes_per_s(text, "bandwidth") == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "text", ["30", "30 parsec", "-1ms", "1.2.3ms", ".ms", "1e999s", "", -1, True, None, float("inf")]
)
def test_what_is_no_time_is_refused_with_the_units_and_an_example(text: object) -> None:
    with pytest.raises(ConfigError) as refused:
        seconds(text, "edge: latency")
    assert str(refused.value) == (
        f"edge: latency is '{text}', but wants a number with one of the units s, ms, us, ns.\n  Write e.g. \"30ms\"."
    )


@pytest.mark.parametrize(
    ("text", "value"), [("100mbit", 12.5e6), ("1gbit", 125e6), ("2 Mbit/s", 250e3), ("1MB/s", 1e6)]
)
def test_rates_of_links_may_be_written_as_network_tools_do(text: str, value: float) -> None:
    assert link_rate(text, "--net") == pytest.approx(value, rel=1e-15)


def test_a_bit_is_not_a_byte_so_units_are_case_sensitive() -> None:
    with pytest.raises(ConfigError) as refused:
        bytes_per_s("20mbit/s", "bandwidth")
    assert str(refused.value) == (
        "bandwidth is '20mbit/s', but wants a number with one of the units "
        "bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s.\n"
        '  Write e.g. "20Mbit/s".'
    )


def test_intervals_are_also_told_in_minutes_and_hours() -> None:
    assert [interval_seconds(text, "--chaos") for text in ("500ms", "15s", "5m", "0.5h")] == [0.5, 15.0, 300.0, 1800.0]
