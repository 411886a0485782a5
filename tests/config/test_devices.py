"""Workers on devices, as they are said."""

import pytest

from weft.config.devices import FakeKind, check_on_devices, objection, read_devices
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError


def test_devices_are_told_by_worker_kind_and_costs() -> None:
    assert read_devices("0:fake, 2: fake(bandwidth=1GB/s, latency=5ms),1:fake(latency=1us)") == {
        0: FakeKind(),
        2: FakeKind(0.005, 1e9),
        1: FakeKind(1e-6),
    }
    assert read_devices("0:fake") == {0: FakeKind()}


def test_a_device_is_shown_as_it_is_typed() -> None:
    text = str(FakeKind(0.0025, 3e9))
    assert text == "fake(bandwidth=3000MB/s, latency=2500us)"
    assert read_devices(f"0:{text}") == {0: FakeKind(0.0025, 3e9)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "fake",
            "--set worker.device got 'fake', but wants WORKER:KIND.\n"
            "  Write e.g. --set 'worker.device=1:fake(bandwidth=1GB/s, latency=20us)'.",
        ),
        (
            "1:fakes",
            "--set worker.device 1: 'fakes' is no kind of device; real ones are not supported yet.\n"
            "  Did you mean 'fake'?",
        ),
        ("1:fake, 1:fake", "--set worker.device says the device of worker 1 twice.\n  Say it once."),
        (
            "1:fake(1GB/s)",
            "--set worker.device 1: got '1GB/s', but wants name=value.\n"
            "  Write e.g. --set 'worker.device=1:fake(bandwidth=1GB/s, latency=20us)'.",
        ),
        ("1:fake(latncy=1us)", "--set worker.device 1: a fake device has no 'latncy'.\n  Did you mean 'latency'?"),
        (
            "1:fake(bandwidth=0B/s)",
            "--set worker.device 1: bandwidth is '0B/s', but must be more than 0.\n"
            "  Write e.g. --set 'worker.device=1:fake(bandwidth=1GB/s, latency=20us)'.",
        ),
    ],
)
def test_what_is_no_device_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_devices(text)
    assert str(refused.value) == message


def test_units_are_read_as_everywhere() -> None:
    with pytest.raises(ConfigError, match=r"^--set worker.device 1: latency"):
        read_devices("1:fake(latency=fast)")


def test_only_plain_sums_go_with_devices() -> None:
    assert check_on_devices(strategy_of("allreduce"), None, "allreduce") is None
    assert check_on_devices(None, None, "the script's own") is None
    with pytest.raises(ConfigError) as refused:
        check_on_devices(strategy_of("ssp"), None, "ssp")
    assert str(refused.value) == (
        "--set worker.device is for strategies that sum over all workers, which 'ssp' never does.\n"
        "  Use e.g. --strategy allreduce."
    )
    with pytest.raises(ConfigError) as refused:
        check_on_devices(strategy_of("allreduce"), "bf16", "allreduce bf16")
    assert str(refused.value) == (
        "--set worker.device does not go with a codec, but 'allreduce bf16' has one.\n  Use --compress none."
    )


def test_strategies_are_objected_to_only_if_there_are_devices() -> None:
    assert objection({}) is None
    objects = objection({0: FakeKind()})
    assert objects is not None
    with pytest.raises(ConfigError):
        objects(strategy_of("gossip"), "gossip")
