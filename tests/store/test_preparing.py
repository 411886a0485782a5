"""A strategy's codecs are made ready for the replicas of a process: checked, and told what only those know."""

import numpy as np
import pytest

import weft
from weft.adapters.array_replica import ArrayReplica
from weft.codecs import DGC, Codec, Factors, PowerSGD, TopK
from weft.config.compression import Compression, compressed
from weft.core.errors import ConfigError
from weft.core.rules import Rule
from weft.core.strategy import Strategy
from weft.store.preparing import ready_codecs

MODEL = {"w": np.zeros((8, 6)), "b": np.zeros(6)}


def replica(rule: Rule | None = None) -> ArrayReplica:
    return ArrayReplica(MODEL, rule or weft.SGD(lr=0.1), None)


def coded(codec: Codec) -> Strategy:
    return compressed(weft.StaleSync(), Compression(codec), None)


def test_every_kind_has_its_codec_and_a_strategy_without_has_none() -> None:
    assert ready_codecs(coded(TopK()), [replica()]) == {"push": TopK(), "params": TopK()}
    assert ready_codecs(weft.StaleSync(), [replica()]) == {}


def test_momentum_is_taken_over_from_every_replica_and_the_codec_is_told() -> None:
    rules = [weft.Momentum(lr=0.1, momentum=0.8) for _ in range(2)]
    ready = ready_codecs(coded(DGC()), [replica(rule) for rule in rules])
    assert ready == {"push": DGC(momentum=0.8)}
    assert [rule.momentum for rule in rules] == [0.0, 0.0]
    assert ready_codecs(coded(DGC()), [replica()]) == {"push": DGC(momentum=0.0)}


@pytest.mark.parametrize(
    ("codec", "rule", "message"),
    [
        (
            DGC(),
            weft.Adam(lr=0.1),
            "'dgc' takes over the momentum of weft.SGD or weft.Momentum, but the optimizer is "
            f"{weft.Adam(lr=0.1)}.\n"
            "  Use weft.Momentum(lr=0.1, momentum=0.9), or 'topk(0.001)', which goes with every optimizer.",
        ),
        (
            Factors(),
            weft.SGD(lr=0.1),
            "'factors' are those of a framework's linear layers, but the script joined with arrays.\n"
            "  Use 'powersgd(2)' or 'topk(0.01)' instead.",
        ),
        (
            PowerSGD(7),
            weft.SGD(lr=0.1),
            "rank of 'powersgd' is 7, but no matrix here has as many rows and columns: it is from 1 to 6.\n"
            "  Use 'powersgd(rank=2)'.",
        ),
    ],
    ids=["dgc", "factors", "powersgd"],
)
def test_a_model_or_an_optimizer_that_is_not_for_a_codec_is_refused(codec: Codec, rule: Rule, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ready_codecs(coded(codec), [replica(rule)])
    assert str(refused.value) == message
