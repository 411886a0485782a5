"""Codecs are drawn from seeds."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from weft.config.compression import GATHER, HOPS, SPARSE, SUMS, TWO_WAY, codec, schemes
from weft.config.registry import CODECS, STRATEGIES
from weft.config.registry import strategy as strategy_of
from weft.fuzz.coding import LEAVES_OUT, OTHERS, WHOLE, CodingChoice, codec_name, draw_coding, says_whole
from weft.strategies import AllReduce

SEEDS = range(600)
CAN = [name for name in STRATEGIES if LEAVES_OUT.intersection(strategy_of(name).kinds().values())]


@pytest.mark.parametrize("name", CAN)
def test_about_a_third_of_the_seeds_of_a_strategy_that_can_have_a_codec_do(name: str) -> None:
    drawn = [draw_coding(seed, strategy_of(name), None) for seed in SEEDS]
    coded = [coding for coding in drawn if coding.compress is not None]
    assert 150 < len(coded) < 250
    assert 0.35 < sum(coding.compress in WHOLE for coding in coded) / len(coded) < 0.65


def test_methods_that_send_gradients_or_deltas_can_have_a_codec_and_those_that_average_parameters_cannot() -> None:
    assert {"allreduce", "ssp", "quorum", "downpour", "neighbours", "diloco"} < set(CAN)
    assert not {"gossip", "push_sum", "local_sgd", "hogwild"} & set(CAN)


def test_a_strategy_need_not_be_hashable() -> None:
    @dataclass(frozen=True)
    class Listed(AllReduce):
        names: list[str] = field(default_factory=list)

    assert [draw_coding(seed, Listed(), None) for seed in range(20)] == [
        draw_coding(seed, AllReduce(), None) for seed in range(20)
    ]


@pytest.mark.slow
def test_strategies_that_cannot_make_up_for_what_is_left_out_have_none() -> None:
    for name in set(STRATEGIES) - set(CAN):
        assert {draw_coding(seed, strategy_of(name), "ring") for seed in SEEDS} == {CodingChoice(None, None, "ring")}


@pytest.mark.slow
def test_every_scheme_of_every_codec_is_drawn_where_there_are_reductions_and_none_elsewhere() -> None:
    drawn = {draw_coding(seed, strategy_of("allreduce"), None)[:2] for seed in range(3000)}
    wanted = {(text, scheme) for text in (*WHOLE, *OTHERS) for scheme in schemes(codec(text))}
    assert drawn - {(None, None)} == wanted
    assert {scheme for _, scheme in wanted} == {GATHER, HOPS, SPARSE, SUMS, TWO_WAY}
    assert {draw_coding(seed, strategy_of("ps"), None).scheme for seed in SEEDS} == {None}


def test_a_coded_reduction_always_has_a_collective_and_keeps_the_one_it_has() -> None:
    recipe = strategy_of("allreduce")
    for seed in SEEDS:
        coding = draw_coding(seed, recipe, None)
        assert (coding.collective is None) == (coding.compress is None)
        assert draw_coding(seed, recipe, "tree") == coding._replace(collective="tree")


def test_codecs_are_called_by_their_names_and_all_but_factors_are_drawn() -> None:
    assert codec_name("dgc(0.002, momentum=0.0)") == "dgc"
    assert codec_name("topk(0.01) | qsgd") == "topk | qsgd"
    assert Counter(map(codec_name, (*WHOLE, *OTHERS))) == Counter({*CODECS, "topk | qsgd"} - {"factors"})


def test_sparsifiers_say_numbers_as_they_are() -> None:
    assert [says_whole(text) for text in ("topk(0.002)", "onebit")] == [True, False]
