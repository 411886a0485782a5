"""The registry of names."""

import pytest

from weft import strategies as rooms
from weft.collectives import Lowered
from weft.config.registry import (
    COLLECTIVES,
    RULES,
    STRATEGIES,
    TOPOLOGIES,
    both,
    default_text,
    expanded,
    in_words,
    is_only_of_all,
    left_out,
    lowered,
    parameters,
    spelled,
    strategy,
    topology,
)
from weft.core.errors import ConfigError
from weft.core.rules import AdaGrad
from weft.core.strategy import Strategy
from weft.strategies import AllReduce, Downpour, Gossip, StaleSync
from weft.topologies import Exponential, Ring, Torus


def test_every_strategy_that_the_package_offers_has_a_name() -> None:
    assert {cls.__name__ for cls in STRATEGIES.values()} == set(rooms.__all__)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_bare_name_is_the_strategy_with_its_defaults(name: str) -> None:
    assert strategy(name) == STRATEGIES[name]()


def test_words_and_calls_become_topologies_and_rules_where_a_parameter_wants_one() -> None:
    assert strategy("gossip(topology=ring)") == Gossip(topology=Ring())
    assert strategy("gossip(topology=torus(2, 4), order=step_first)") == Gossip(Torus(2, 4), order="step_first")
    assert strategy("downpour(server=adagrad(lr=1))") == Downpour(server=AdaGrad(lr=1.0))
    assert strategy("downpour(server=none)") == Downpour(server=None)
    assert topology("exponential(one_peer=true)") == Exponential(one_peer=True)


def test_parameters_may_be_given_in_their_order() -> None:
    assert strategy("ssp(5, 2)") == StaleSync(staleness=5, servers=2)


def test_any_strategy_runs_over_any_collective() -> None:
    for name in COLLECTIVES:
        over = strategy("allreduce", name)
        assert isinstance(over, Lowered)
        assert (over.inner, over.name) == (strategy("allreduce"), name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gosip", "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
        ("zzz", f"strategy 'zzz' is not known.\n  Known: {', '.join(sorted(STRATEGIES))}."),
        ("gossip(topology=rong)", "topology 'rong' is not known.\n  Did you mean 'ring'?"),
        ("downpour(server=adagrat(lr=1))", "rule 'adagrat' is not known.\n  Did you mean 'adagrad'?"),
        ("ssp(stalenes=1)", "strategy 'ssp' has no parameter 'stalenes'.\n  Did you mean 'staleness'?"),
        ("allreduce(period=1)", "strategy 'allreduce' has no parameter 'period'.\n  It has none."),
        (
            "ssp(1, 2, apply, 3, 0.1, 6)",
            "strategy 'ssp' cannot take these arguments: too many positional arguments.\n"
            "  Its parameters are: staleness, servers, late, max_age, compensation.",
        ),
        (
            "gossip(topology=ring(3))",
            "topology 'ring' cannot take these arguments: too many positional arguments.\n  Its parameters are: none.",
        ),
        (
            "downpour(server=adagrad)",
            "rule 'adagrad' cannot take these arguments: missing a required argument: 'lr'.\n"
            "  Its parameters are: lr, epsilon.",
        ),
        (
            "ssp(staleness=2.5)",
            "ssp(staleness=...) got '2.5', but wants int or none.\n  Change it to a value of that type.",
        ),
        (
            "ssp(staleness=true)",
            "ssp(staleness=...) got 'True', but wants int or none.\n  Change it to a value of that type.",
        ),
        (
            "downpour(server=adagrad(lr=fast))",
            "adagrad(lr=...) got 'fast', but wants float.\n  Change it to a value of that type.",
        ),
        (
            "gossip(topology=3)",
            f"gossip(topology=...) got '3', but wants a topology.\n  Known: {', '.join(TOPOLOGIES)}.",
        ),
        (
            "gossip(topology=none)",
            f"gossip(topology=...) got 'None', but wants a topology.\n  Known: {', '.join(TOPOLOGIES)}.",
        ),
        ("downpour(server=3)", f"downpour(server=...) got '3', but wants a rule.\n  Known: {', '.join(RULES)}."),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_could(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        strategy(text)
    assert str(refused.value) == message


def test_auto_leaves_the_collective_open_and_every_collective_has_its_words() -> None:
    assert strategy("allreduce", "auto") == AllReduce()
    assert in_words("ring") == "parts travel around, first gathering their sum, then spreading it."
    assert in_words("hierarchical") == "within hosts, between the hosts' leaders, and back."
    assert all(in_words(name).endswith(".") for name in COLLECTIVES)


def test_an_unknown_collective_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as refused:
        lowered(strategy("allreduce"), "buterfly")
    assert str(refused.value) == "collective 'buterfly' is not known.\n  Did you mean 'butterfly'?"


@pytest.mark.parametrize("text", [*STRATEGIES, "ssp(staleness=5)", "gossip(topology=ring, order=step_first)"])
def test_a_strategy_is_spelled_as_it_is_read(text: str) -> None:
    assert spelled(strategy(text)) == text


def test_defaults_are_written_as_a_user_would_write_them() -> None:
    assert {name: default_text(Gossip, name) for name in parameters(Gossip)} == {
        "topology": "exponential",
        "weights": "auto",
        "order": "overlap",
    }
    assert default_text(StaleSync, "staleness") == "3"
    assert default_text(Downpour, "server") == "None"


def test_all_stands_for_what_fits_the_workers_and_their_hosts() -> None:
    assert expanded(None, 4) == (None,)
    assert expanded(("ps", "ssp(staleness=2)"), 4) == ("ps", "ssp(staleness=2)")
    assert expanded(("all",), 4) == tuple(STRATEGIES)
    assert set(STRATEGIES) - set(expanded(("all",), 4, num_hosts=4)) == {"hogwild"}
    assert left_out(("ps",), 4, num_hosts=4) == left_out(None, 4) == left_out(("all",), 4) == {}
    assert left_out(("ps", "all"), 4, num_hosts=4)["hogwild"].startswith("'hogwild' writes one replica")
    assert set(STRATEGIES) - set(expanded(("all",), 1)) == {"population"}


def test_all_stands_for_every_strategy_that_is_for_so_many_workers() -> None:
    assert expanded(None, 4) == (None,)
    assert expanded(("ps", "all"), 2) == ("ps", *STRATEGIES)
    assert expanded(("all",), 1) == tuple(name for name in STRATEGIES if name != "population")


def test_what_only_all_asks_for_may_be_left_out() -> None:
    assert is_only_of_all("ps", ("all",))
    assert not is_only_of_all("ps", ("all", "ps"))
    assert not is_only_of_all(None, None)


def test_of_several_objections_each_is_heard_and_none_is_no_objection() -> None:
    heard: list[str] = []

    def refuse(strategy: Strategy, name: str) -> None:
        raise ConfigError(f"not {name}")

    both(None, lambda strategy, name: heard.append(name), None)(strategy("ssp"), "ssp")
    assert heard == ["ssp"]
    with pytest.raises(ConfigError, match="not ssp"):
        both(None, refuse)(strategy("ssp"), "ssp")
