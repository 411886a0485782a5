"""Ways to train: a strategy with a codec and a share in one text, or all of them with each other."""

import pytest

from weft.config.ways import Way, read_ways
from weft.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("ssp(staleness=3)", Way("ssp(staleness=3)")),
        ("allreduce share=proportional", Way("allreduce", None, "proportional")),
        ("allreduce + topk(0.01)", Way("allreduce", "topk(0.01)")),
        (
            "diloco(period=10, lr=1.0) + topk(0.05) | qsgd share=stealing",
            Way("diloco(period=10, lr=1.0)", "topk(0.05) | qsgd", "stealing"),
        ),
    ],
)
def test_a_label_can_be_typed_again(text: str, way: Way) -> None:
    assert read_ways([text, "hogwild"]) == [way, Way("hogwild")]
    assert way.label == text


def test_codecs_and_shares_go_with_every_strategy_that_does_not_say_its_own() -> None:
    ways = read_ways(["ssp", "allreduce + fp16 share=static"], ["none", "bf16"], ["static", "proportional"], ["ddp"])
    assert [way.label for way in ways] == [
        "ssp",
        "ssp share=proportional",
        "ssp + bf16",
        "ssp + bf16 share=proportional",
        "allreduce + fp16",
        "ddp",
    ]


@pytest.mark.parametrize(
    ("strategies", "baselines"),
    [
        (["ssp", "ssp(staleness=3)"], []),
        (["allreduce", "allreduce + none share=static"], []),
        (["ssp"], ["ddp", "ddp"]),
    ],
    ids=str,
)
def test_contenders_that_are_equal_are_refused(strategies: list[str], baselines: list[str]) -> None:
    with pytest.raises(ConfigError, match="are the same, so there is nothing to compare"):
        read_ways(strategies, baselines=baselines)


@pytest.mark.parametrize(
    ("strategies", "because"),
    [
        (["allreduce"], "a comparison needs at least two ways to train"),
        (["allreduce share=fair", "ssp"], "share 'fair' is not known"),
        (["allreduce", "gosip"], "strategy 'gosip' is not known"),
        (["allreduce", "ssp + topkk"], "codec 'topkk' is not known"),
        (["allreduce", " "], "--strategy got ' ', but wants a strategy"),
    ],
)
def test_what_is_no_way_to_train_is_refused(strategies: list[str], because: str) -> None:
    with pytest.raises(ConfigError, match=because):
        read_ways(strategies)
