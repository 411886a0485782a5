"""Which seat a worker process takes."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.config.compression import Compression, compressed
from weft.config.registry import lowered
from weft.core.errors import ConfigError
from weft.engines.real.seat_factory import OWN, BaselineSeat, hook_of, resolve, seat_of
from weft.runtime.channel import Channel
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import Welcome, WorkerJob
from weft.runtime.seats.live_seat import LiveSeat
from weft.runtime.seats.plain_seat import PlainSeat


def job(num_workers: int = 2, baseline: str | None = None) -> WorkerJob:
    """A job that never runs."""
    told: dict[str, Any] = dict.fromkeys(WorkerJob.__struct_fields__, 0)
    told |= {"num_workers": num_workers, "script": "train.py", "arguments": [], "steps_max": None}
    told |= {"global_batch": None, "transport": "shm", "secret": b"", "baseline": baseline, "hiccups": (0.0, 1.0)}
    return WorkerJob(**{**told, "descriptors": Descriptors(0, 0, 0, 0, []), "checkpoint": None})


@pytest.fixture
def channel() -> Iterator[Channel]:
    ends = socket.socketpair()
    yield Channel(ends[0])
    for end in ends:
        end.close()


@pytest.mark.parametrize(
    ("num_workers", "baseline", "kind"),
    [(1, None, PlainSeat), (1, "ddp", PlainSeat), (2, "ddp", BaselineSeat), (2, None, LiveSeat)],
)
def test_one_worker_is_left_alone_and_several_share_unless_the_baseline_does_it(
    channel: Channel, num_workers: int, baseline: str | None, kind: type
) -> None:
    assert type(seat_of(job(num_workers, baseline), channel)) is kind


def test_the_baseline_needs_a_torch_model(channel: Channel) -> None:
    arrays: Any = SimpleNamespace(layout=list)
    with pytest.raises(ConfigError) as refused:
        seat_of(job(2, "ddp"), channel).join(arrays, None)  # type: ignore[attr-defined]
    assert str(refused.value) == (
        "--baseline ddp needs a torch model, but the script joined with arrays.\n  Leave it out."
    )


@pytest.mark.parametrize(
    ("baseline", "hook"), [(None, None), ("ddp", None), ("ddp+fp16", "fp16"), ("ddp+powersgd", "powersgd")]
)
def test_a_baseline_may_compress_what_it_sends(baseline: str | None, hook: str | None) -> None:
    assert hook_of(baseline) == hook


class Mine(weft.AllReduce):
    """A strategy of the script's own, which has no name."""


@pytest.mark.parametrize(
    ("welcome", "asked", "expected"),
    [
        (None, weft.StaleSync(staleness=5), (weft.StaleSync(staleness=5), "ssp(staleness=5)")),
        (None, Mine(), (Mine(), OWN)),
        (Welcome(None, []), Mine(), (Mine(), OWN)),
        (Welcome("gossip", []), Mine(), (weft.Gossip(), "gossip")),
        (Welcome(OWN, []), Mine(), (Mine(), OWN)),
        (Welcome("allreduce", [], "ring"), None, (lowered(weft.AllReduce(), "ring"), "allreduce")),
        (Welcome(OWN, [], "tree"), Mine(), (lowered(Mine(), "tree"), OWN)),
        (
            Welcome("allreduce", [], "ring", "topk(0.01)", "gather"),
            None,
            (compressed(weft.AllReduce(), Compression(weft.TopK(0.01), "gather"), "ring"), "allreduce"),
        ),
        (
            Welcome("ssp", [], None, "onebit"),
            None,
            (compressed(weft.StaleSync(), Compression(weft.OneBit()), None), "ssp"),
        ),
    ],
)
def test_a_strategy_is_the_one_that_the_engine_names_or_the_scripts_own(
    welcome: Welcome | None, asked: Any, expected: tuple[Any, str]
) -> None:
    assert resolve(welcome, asked) == expected


def test_a_strategy_of_the_scripts_own_is_checked_against_the_codec() -> None:
    class Averages(weft.LocalSGD):
        """Averages parameters, by another name."""

    with pytest.raises(ConfigError, match=r"^'topk' cannot be used with 'Averages', which sends whole parameters"):
        resolve(Welcome(OWN, [], "ring", "topk(0.01)", "gather"), Averages())
