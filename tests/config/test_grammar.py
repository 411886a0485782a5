"""The grammar of 'ssp(staleness=3)'."""

import pytest

from weft.config.grammar import Call, parse
from weft.core.errors import ConfigError

ADVICE = "  Write a name, or a name with arguments: 'ssp', 'ssp(staleness=3)', 'gossip(topology=torus(2, 4))'."


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("ring", Call("ring")),
        ("  ring ", Call("ring")),
        ("torus(2, 4)", Call("torus", (2, 4))),
        ("ssp(staleness=-1)", Call("ssp", (), {"staleness": -1})),
        ("ssp(staleness=None)", Call("ssp", (), {"staleness": None})),
        ("ssp(staleness=none)", Call("ssp", (), {"staleness": None})),
        ("exponential(one_peer=true)", Call("exponential", (), {"one_peer": True})),
        ("gossip(order=step_first)", Call("gossip", (), {"order": "step_first"})),
        ("gossip(order='step_first')", Call("gossip", (), {"order": "step_first"})),
        ("easgd(mode=async)", Call("easgd", (), {"mode": "async"})),
        ("easgd(mode = async , alpha=None)", Call("easgd", (), {"mode": "async", "alpha": None})),
        ("easgd(mode='async')", Call("easgd", (), {"mode": "async"})),
        ("custom([(0, 1), (1, 2)])", Call("custom", ([(0, 1), (1, 2)],))),
        ("gossip(topology=torus(2, 4))", Call("gossip", (), {"topology": Call("torus", (2, 4))})),
    ],
)
def test_a_call_has_literals_words_and_calls_as_arguments(text: str, call: Call) -> None:
    assert parse(text) == call


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not written like a call"),
        ("ssp(", "it is not written like a call"),
        ("easgd(async=1)", "it is not written like a call"),
        ("two words", "it is not written like a call"),
        ("\0", "it is not written like a call"),
        ("3", "it does not begin with a name"),
        ("'ssp'", "it does not begin with a name"),
        ("none", "it does not begin with a name"),
        ("os.system('x')", "only plain names can be called"),
        ("ssp(**{})", "only plain names can be called"),
        ("ssp(*[1])", "'*[1]' is not a literal"),
        ("ssp(staleness=1 + 1)", "'1 + 1' is not a literal"),
        ("ssp(staleness=[x for x in y])", "'[x for x in y]' is not a literal"),
        ("ssp(staleness={[]: 1})", "'{[]: 1}' is not a literal"),
        ("ssp(staleness=1, staleness=2)", "'staleness' is given more than once"),
    ],
)
def test_what_is_not_a_call_is_refused_and_never_evaluated(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert str(refused.value) == f"'{text}' cannot be read: {why}.\n{ADVICE}"
