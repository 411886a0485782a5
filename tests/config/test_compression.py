"""Which codec carries what, which pairs are refused, and by which scheme what is coded is reduced."""

import pytest

import weft
from weft.codecs import BF16, FP16, QSGD, Chain, Form, Nonzeros, OneBit, PowerSGD, TernGrad, TopK
from weft.collectives.coded_messages import CodedMessages
from weft.collectives.gathered import Gathered
from weft.collectives.lowering import Lowered, Wire
from weft.collectives.phased import AT_END, AT_ONCE, NO_FEEDBACK, Phased
from weft.collectives.two_way import TwoWay
from weft.config.compression import (
    GATHER,
    HOPS,
    IN_WORDS,
    SPARSE,
    SUMS,
    TWO_WAY,
    Compression,
    bytes_sent,
    cheapest,
    check_pair,
    codec,
    compressed,
    prices_s,
    schemes,
    with_codec,
)
from weft.config.registry import CODECS, strategy
from weft.core.errors import ConfigError
from weft.cost.links import Link

FAST, SLOW = Link(1e-3, 1e12), Link(1e-6, 1e6)


def refusal(text: str, name: str = "allreduce") -> str:
    """With what a codec, or its pair with a strategy, is refused."""
    with pytest.raises(ConfigError) as refused:
        check_pair(strategy(name), codec(text), name)
    return str(refused.value)


def test_a_codec_is_named_as_it_is_written_and_prints_as_a_user_would_write_it() -> None:
    assert codec("topk(0.05)") == weft.TopK(0.05)
    assert codec("topk(k_of_block=16) | qsgd(levels=3)") == Chain(TopK(k_of_block=16), QSGD(3))
    for text in (*CODECS, "topk(fraction=0.05)", "topk(k_of_block=16) | qsgd", "onebit(feedback=False)"):
        assert str(codec(text)) == text
        assert codec(str(codec(text))) == codec(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topq", "codec 'topq' is not known.\n  Did you mean 'topk'?"),
        ("topk(k=3)", "codec 'topk' has no parameter 'k'.\n  Known: block, fraction, k_of_block."),
        ("topk(0)", "fraction of 'topk' is 0.0, but it is above 0 and at most 1.\n  Use 'topk(fraction=0.01)'."),
        ("topk(1.5)", "fraction of 'topk' is 1.5, but it is above 0 and at most 1.\n  Use 'topk(fraction=0.01)'."),
        ("qsgd(0)", "levels of 'qsgd' is 0, but it is a whole number from 1 to 127.\n  Use 'qsgd(levels=7)'."),
        (
            "topk(",
            "'topk(' cannot be read: it is not written like calls with | between them.\n"
            "  Write e.g. 'onebit', 'topk(0.01)' or 'topk(0.01) | qsgd(levels=7)'.",
        ),
        (
            "fp16 | topk",
            "'fp16 | topk' cannot be: 'fp16' does not choose among numbers, or does more than that.\n"
            "  Begin with topk, randomk or threshold.",
        ),
        (
            "topk(0.05, k_of_block=16)",
            "'topk' got both fraction=0.05 and k_of_block=16, but wants one.\n"
            "  Use 'topk(0.05)' or 'topk(k_of_block=16, block=512)'.",
        ),
        ("topk | qsgd | fp16", "'topk | qsgd | fp16' is too long: two codecs in a row are the most."),
        (
            "dgc | qsgd",
            "'dgc | qsgd' cannot be: 'dgc' does not choose among numbers, or does more than that.\n"
            "  Begin with topk, randomk or threshold.",
        ),
    ],
)
def test_what_cannot_be_a_codec_is_refused_with_what_to_write(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize("sparse", ["topk", "randomk", "threshold", "onebit", "qsgd", "powersgd"])
@pytest.mark.parametrize("name", ["local_sgd", "gossip", "easgd"])
def test_what_leaves_something_out_may_not_carry_parameters_that_are_averaged(sparse: str, name: str) -> None:
    assert refusal(sparse, name) == (
        f"'{sparse}' cannot be used with '{name}', which sends whole parameters, and what is left out of those is "
        "never made up for.\n"
        "  Use 'fp16' or 'bf16', or a strategy that sends gradients or deltas: 'allreduce', 'ssp' or 'diloco'."
    )


@pytest.mark.parametrize("name", ["ssp", "diloco", "gossip", "push_sum"])
def test_signs_want_a_vote(name: str) -> None:
    assert refusal("signsgd", name) == (
        f"'signsgd' cannot be used with '{name}', which has no majority vote over signs.\n"
        "  Use 'allreduce', or 'onebit', which needs no vote."
    )


@pytest.mark.parametrize("text", ["factors", "dgc"])
@pytest.mark.parametrize("name", ["diloco", "local_sgd", "ensemble"])
def test_what_is_made_of_gradients_wants_gradients(text: str, name: str) -> None:
    assert refusal(text, name) == (
        f"'{text}' cannot be used with '{name}', which sends no gradients.\n"
        "  Use a strategy that does: 'allreduce', 'ssp' or 'neighbours'."
    )


@pytest.mark.parametrize("name", ["push_sum", "sandblaster", "ensemble", "hogwild"])
def test_what_must_arrive_as_it_is_goes_without_a_codec(name: str) -> None:
    assert refusal("fp16", name) == (
        f"'fp16' cannot be used with '{name}', which sends nothing that may change on the way.\n"
        "  Use it without a codec."
    )


def test_casts_go_with_whatever_is_sent() -> None:
    for name in ("allreduce", "ssp", "gossip", "local_sgd", "easgd", "diloco", "neighbours", "population"):
        check_pair(strategy(name), FP16(), name)
        check_pair(strategy(name), BF16(), name)
    assert with_codec("ssp", "fp16") == "ssp + fp16"
    assert with_codec("ssp", None) == "ssp"


def test_every_codec_has_a_scheme_and_every_scheme_its_words() -> None:
    found = {text: schemes(codec(text)) for text in CODECS}
    assert all(found.values())
    assert {scheme for each in found.values() for scheme in each} == set(IN_WORDS)
    assert found["fp16"] == (HOPS,)
    assert found["powersgd"] == (SUMS,)
    assert found["signsgd"] == (TWO_WAY,)
    assert found["randomk"] == (GATHER, SUMS)
    assert found["topk"] == (GATHER, SPARSE)
    assert found["onebit"] == (GATHER, TWO_WAY)


def test_gathering_is_for_few_workers_and_the_other_ways_are_for_many() -> None:
    form = Form(1_000_000)
    size = OneBit().size(form)
    assert bytes_sent(OneBit(), GATHER, form, 4) == 3 * size
    assert bytes_sent(OneBit(), TWO_WAY, form, 4) == 1.5 * size
    assert bytes_sent(OneBit(), SUMS, form, 4) == 2 * size
    assert bytes_sent(TopK(), SPARSE, form, 4) == 3 * TopK().size(form)
    assert cheapest(OneBit(), 4_000_000, 2, SLOW) == GATHER
    assert cheapest(OneBit(), 4_000_000, 16, SLOW) == TWO_WAY
    assert cheapest(OneBit(), 4_000_000, 16, FAST) == GATHER
    assert cheapest(TopK(0.1), 4_000_000, 64, SLOW) == SPARSE
    assert set(prices_s(TopK(), 4_000_000, 8, SLOW)) == {GATHER, SPARSE}


def allreduce(text: str, scheme: str, collective: str = "ring") -> Lowered:
    built = compressed(weft.AllReduce(), Compression(codec(text), scheme), collective)
    assert isinstance(built, Lowered)
    return built


def test_casts_are_on_every_hop_of_the_collective_that_was_asked_for() -> None:
    built = allreduce("fp16", HOPS)
    assert (built.name, built.inner) == ("ring", weft.AllReduce())
    assert built.wires == tuple(Wire(kind, FP16(), is_exact=False) for kind in ("gradient", "state"))


def test_what_cannot_be_summed_is_gathered_and_the_rest_is_spoken_by_the_collective() -> None:
    built = allreduce("topk", GATHER)
    gathered = built.inner
    assert isinstance(gathered, Gathered)
    assert isinstance(gathered.inner, Phased)
    assert (built.name, gathered.inner.feedback, gathered.inner.coded) == ("ring", AT_ONCE, ("gradient",))
    assert gathered.gathered == tuple(gathered.inner.codecs())


def test_what_is_agreed_on_first_is_summed_from_partner_to_partner() -> None:
    built = allreduce("terngrad", GATHER)
    gathered = built.inner
    assert built.name == "butterfly"
    assert isinstance(gathered, Gathered)
    assert isinstance(gathered.inner, Phased)
    assert list(gathered.inner.codecs().values()) == [TernGrad().peaks, TernGrad()]
    assert gathered.inner.feedback == NO_FEEDBACK
    assert gathered.gathered == tuple(gathered.inner.codecs())[1:]


def test_powersgd_is_two_reductions_whose_feedback_comes_at_the_end() -> None:
    built = allreduce("powersgd", SUMS)
    phased = built.inner
    assert isinstance(phased, Phased)
    assert (built.name, phased.feedback, phased.starts_warm) == ("butterfly", AT_END, True)
    assert list(phased.codecs().values()) == [PowerSGD().left, PowerSGD().right]


def test_sparse_sums_travel_as_their_nonzeros() -> None:
    built = allreduce("topk", SPARSE)
    assert built.name == "butterfly"
    assert [(wire.codec, wire.is_exact) for wire in built.wires] == [(Nonzeros(), True)]


def test_both_ways_and_votes_go_through_the_servers_of_the_parts() -> None:
    for text in ("onebit", "signsgd"):
        built = allreduce(text, TWO_WAY)
        assert built.inner == TwoWay(weft.AllReduce(), ("gradient",), codec(text))


def test_messages_are_pushed_followed_or_cast_by_what_they_carry() -> None:
    def parts(name: str, text: str) -> tuple[object, ...]:
        built = compressed(strategy(name), Compression(codec(text)), None)
        assert isinstance(built, CodedMessages)
        return built.pushed, built.followed, built.cast, built.has_velocity

    assert parts("ssp", "topk") == (("push",), ("params",), (), False)
    assert parts("ssp", "fp16") == (("push",), (), ("params",), False)
    assert parts("ssp", "dgc") == (("push",), (), (), True)
    assert parts("ssp", "factors") == (("push",), (), (), False)
    assert parts("gossip", "fp16")[:2] == ((), ())
    assert parts("neighbours", "onebit")[0] == ("gradient",)
