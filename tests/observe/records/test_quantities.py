"""Numbers of bytes and seconds as people say them."""

import pytest

from weft.observe.records.quantities import human_bytes, human_rate, human_seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3.14e6, "3.1 MB"), (2e9, "2.0 GB"), (5e15, "5000.0 TB")],
)
def test_bytes_are_told_in_the_unit_that_suits_them(value: float, text: str) -> None:
    assert human_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(5e-5, "50 us"), (0.0123, "12.3 ms"), (1.0, "1.0 s"), (119.94, "119.9 s"), (250.0, "4 min 10 s")],
)
def test_seconds_are_told_in_the_unit_that_suits_them(value: float, text: str) -> None:
    assert human_seconds(value) == text


@pytest.mark.parametrize(
    ("bytes_per_s", "text"),
    [(0, "0 bit/s"), (100, "800 bit/s"), (12.5e6, "100 Mbit/s"), (11.36e6, "90.9 Mbit/s"), (1e12, "8000 Gbit/s")],
)
def test_rates_are_told_as_networks_are(bytes_per_s: float, text: str) -> None:
    assert human_rate(bytes_per_s) == text
