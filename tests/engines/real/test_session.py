"""What the engine answers its workers."""

from typing import Any

import pytest
from support.processes.sessions import STATUS, Talk, joined

from weft.config.network import EmulatedNetwork
from weft.core.errors import ConfigError
from weft.engines.explanation import Explanation
from weft.engines.real import memory_check
from weft.runtime.connections import LINKS
from weft.runtime.messages import (
    Conclude,
    Concluded,
    Decided,
    Evaluated,
    FractionsAsked,
    FractionsTold,
    Message,
    OnceAnswer,
    OnceAsked,
    OnceLoaded,
    Order,
    Planned,
    PortionRequested,
    PortionTold,
    Reported,
    Saves,
    ScriptCompleted,
    ThroughputMeasured,
    Welcome,
)


def welcomed(talk: Talk) -> Welcome:
    """What all are told when all have joined with a small model."""
    welcome = talk.join(*[joined()] * talk.engine.num_workers)[0][1]
    assert isinstance(welcome, Welcome)
    return welcome


def to_all(message: Message, num_workers: int = 3) -> list[tuple[int, Message]]:
    return [(rank, message) for rank in range(num_workers)]


def test_all_are_welcome_when_the_last_has_joined_and_learn_where_the_others_listen() -> None:
    talk = Talk()
    assert not talk.engine.has_begun
    assert talk.join(*(joined(port=70 + rank) for rank in range(3))) == to_all(Welcome("allreduce", [70, 71, 72]))
    assert talk.engine.has_begun
    assert talk.engine.label == "allreduce"


@pytest.mark.parametrize(
    ("runs", "scripts", "options", "named", "collective", "label"),
    [
        (None, None, {}, "allreduce", None, "allreduce"),
        (None, "gossip", {}, "gossip", None, "gossip"),
        ("ssp(staleness=2)", "gossip", {}, "ssp(staleness=2)", None, "ssp(staleness=2)"),
        (None, "", {}, "", None, "the script's own"),
        ("allreduce", "", {"collective": "tree"}, "allreduce", "tree", "allreduce"),
        (None, "", {"transport": "tcp"}, "", None, "the script's own"),
        (None, None, {"transport": "tcp"}, "allreduce", None, "allreduce"),
        (None, "", {"transport": "tcp", "survives": True}, "", "butterfly", "the script's own"),
        (None, None, {"transport": "tcp", "collective": "ring"}, "allreduce", "ring", "allreduce"),
        (None, None, {"transport": "tcp", "collective": "auto"}, "allreduce", None, "allreduce"),
        (None, None, {"collective": "auto"}, "allreduce", None, "allreduce"),
        (None, "gossip", {"transport": "tcp"}, "gossip", None, "gossip"),
        (None, None, {"transport": "torch"}, "allreduce", None, "allreduce"),
        (None, None, {"baseline": "ddp"}, "allreduce", None, "ddp"),
    ],
)
def test_the_runs_strategy_comes_before_the_scripts_and_survivors_speak_reductions(
    runs: str | None,
    scripts: str | None,
    options: dict[str, Any],
    named: str,
    collective: str | None,
    label: str,
) -> None:
    talk = Talk(2, runs, **options)
    assert talk.join(joined(scripts), joined(scripts)) == to_all(Welcome(named, [0, 0], collective), 2)
    assert talk.engine.label == label


@pytest.mark.parametrize(("num_bytes", "collective"), [(100_000, "butterfly"), (100_000_000, "halving_doubling")])
def test_over_sockets_the_cheapest_collective_for_the_model_is_taken_and_explained(
    num_bytes: int, collective: str
) -> None:
    talk = Talk(4, transport="tcp", survives=True, bucket_bytes_max=4 << 20)
    told: list[Explanation] = []
    talk.engine.on_explain = told.append
    answers = talk.join(*[joined(num_bytes=num_bytes)] * 4)
    assert answers[0] == (0, Welcome("allreduce", [0] * 4, collective))
    assert [explanation.collective for explanation in told] == [collective]
    assert told[0].place == "processes of this machine over sockets (tcp)"
    assert told[0].link == LINKS["tcp"]


def test_on_a_slow_network_the_collective_is_chosen_for_its_links() -> None:
    told: list[Explanation] = []
    for network in (None, EmulatedNetwork(1e9, 2.0)):
        talk = Talk(4, "allreduce", transport="tcp", survives=True, network=network)
        talk.engine.on_explain = told.append
        talk.join(*[joined(num_bytes=40_000_000)] * 4)
    near, far = told
    assert far.place == "processes of this machine over sockets (tcp), 8 Gbit/s, 2000 ms"
    assert far.link == (2.0, 1e9)
    assert (near.collective, far.collective) == ("halving_doubling", "butterfly")  # two delays rather than four


def test_workers_of_several_hosts_sum_where_they_sit_first_and_that_is_explained() -> None:
    talk = Talk(4, "allreduce", hosts=[0, 0, 1, 1])
    told: list[Explanation] = []
    talk.engine.on_explain = told.append
    welcome = welcomed(talk)
    assert welcome.collective is told[0].collective is None
    assert told[0].native == "summed in the shared memory of each host, then between the first workers of all hosts"
    assert told[0].place == "processes on 2 hosts: shared memory within a host, TLS between them"
    assert told[0].link == LINKS["tls"]
    far = Talk(4, "allreduce", hosts=[0, 0, 1, 1], network=EmulatedNetwork(1e9, 2.0))
    far.engine.on_explain = told.append
    welcomed(far)
    assert told[1].place == (
        "processes on 2 hosts: shared memory within a host, sockets (tcp) between them, 8 Gbit/s, 2000 ms"
    )


def test_on_several_hosts_what_is_spoken_is_spoken_hierarchically_unless_something_else_is_asked_for() -> None:
    talk = Talk(4, "allreduce", hosts=[0, 0, 1, 1], compress="fp16")
    told: list[Explanation] = []
    talk.engine.on_explain = told.append
    assert welcomed(talk).collective == "hierarchical"
    assert told[0].why == "so that a bucket crosses between hosts once each way, however many workers are there"
    assert welcomed(Talk(2, "allreduce", hosts=[0, 1], compress="fp16")).collective == "butterfly"
    assert welcomed(Talk(4, "allreduce", hosts=[0, 0, 1, 1], collective="ring")).collective == "ring"
    assert welcomed(Talk(4, "gossip", hosts=[0, 0, 1, 1])).collective is None


def test_first_values_are_where_all_can_read_them_before_anybody_is_welcomed() -> None:
    talk = Talk(2, "allreduce", hosts=[0, 1])
    said: list[int] = []
    talk.engine.on_joined = lambda: said.append(len(talk.sent))
    assert len(talk.join(joined(), joined())) == 2
    assert said == [0]


@pytest.mark.parametrize(
    ("place", "native"),
    [
        ("host", "summed in shared memory; what is on the devices of workers 1, 2 is copied there, and the sum back"),
        ("device", "summed on the devices of workers 1, 2; what is on the host is copied there, and the sum back"),
        (
            "auto",
            "summed in shared memory or on the devices of workers 1, 2, whatever the workers measure to be cheaper",
        ),
    ],
)
def test_where_sums_with_devices_are_made_is_explained(place: str, native: str) -> None:
    talk = Talk(3, "allreduce", on_devices=[1, 2], reduce_place=place)
    told: list[Explanation] = []
    talk.engine.on_explain = told.append
    talk.join(*[joined()] * 3)
    assert [explanation.native for explanation in told] == [native]


def test_a_script_whose_strategy_sums_nothing_is_refused_on_devices() -> None:
    with pytest.raises(
        ConfigError, match=r"^--set worker.device is for strategies that sum over all workers, which 'gossip' "
    ):
        Talk(3, on_devices=[1]).join(*[joined("gossip")] * 3)


def test_neither_a_baseline_nor_a_scripts_own_object_is_explained() -> None:
    for options, scripts in (({"baseline": "ddp"}, None), ({}, "")):
        talk = Talk(2, **options)
        told: list[Explanation] = []
        talk.engine.on_explain = told.append
        talk.join(joined(scripts), joined(scripts))
        assert told == []


def test_a_topology_that_does_not_fit_is_refused_before_anybody_begins() -> None:
    talk = Talk(3, "gossip(topology=torus(2, 4))")
    with pytest.raises(ConfigError, match=r"^topology 'torus\(2, 4\)' has 8 places, but there are 3 workers."):
        talk.join(joined(), joined(), joined())
    assert talk.sent == []


def test_models_that_differ_are_refused_by_the_first_tensor_that_does() -> None:
    with pytest.raises(ConfigError) as refused:
        Talk(2).join(joined(), joined(layout=["w (4,) float64"]))
    assert str(refused.value) == (
        "worker 1 joined with 'w (4,) float64' where worker 0 has 'w (3,) float64'.\n"
        "  Build the same model on every worker."
    )


def test_a_run_that_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "available_bytes", lambda: 10 << 30)
    with pytest.raises(ConfigError, match=r"^2 workers need about 20.0 GiB \(10240.0 MiB each\), but 10.0 GiB"):
        Talk(2).join(joined(num_bytes=2 << 30), joined(num_bytes=2 << 30))


def test_worker_0s_order_of_the_parameters_goes_to_all() -> None:
    assert Talk().hear(0, Order([2, 0, 1])) == to_all(Order([2, 0, 1]))


@pytest.mark.parametrize(
    ("options", "plan", "total"),
    [
        ({}, Planned(2, 26, 3, False), 6),
        ({}, Planned(2, 28, 3, True), 6),
        ({"global_batch": 13}, Planned(2, 26, 3, False), 4),
        ({}, Planned(None, 26, 3, False), None),
        ({"steps_max": 5}, Planned(2, 26, 3, False), 5),
    ],
)
def test_the_number_of_steps_is_known_as_soon_as_a_script_has_said_its_plan(
    options: dict[str, Any], plan: Planned, total: int | None
) -> None:
    talk = Talk(**options)
    assert talk.hear(0, plan) == []
    assert talk.engine.steps_total == total


def test_where_portions_are_handed_out_a_worker_makes_as_many_steps_as_its_part_of_them() -> None:
    talk = Talk(strategy="sandblaster")
    talk.join(*(joined() for _ in range(3)))
    talk.hear(0, Planned(2, 31, 3, False))
    assert talk.engine.steps_total == 2 * 4, "eleven portions for three workers"
    talk.hear(0, Planned(2, 2, 3, False))
    assert talk.engine.steps_total == 2, "fewer samples than workers are no error"


def test_numbers_of_a_report_are_averaged_over_those_who_told_them() -> None:
    talk = Talk()
    for rank, numbers in [(2, {"loss": 4.0}), (0, {"loss": 1.0, "mine": 7.0}), (1, {"loss": 1.0})]:
        assert talk.reports == []
        assert talk.hear(rank, Reported(0, 5, numbers, [])) == []
    assert talk.reports == [(5, {"loss": 2.0, "mine": 7.0}, None)]


def test_the_last_who_reports_runs_the_callables_and_the_report_waits_for_them() -> None:
    talk = Talk()
    answers = [talk.hear(rank, Reported(0, 1, {"loss": float(rank)}, ["accuracy"])) for rank in (1, 2, 0)]
    assert answers == [[(1, Decided(False))], [(2, Decided(False))], [(0, Decided(True))]]
    assert talk.reports == []
    talk.hear(0, Evaluated(0, 1, {"accuracy": 0.5}, 0.25))
    assert talk.reports == [(1, {"loss": 1.0, "accuracy": 0.5}, 0.25)]


def test_a_fast_worker_may_report_twice_before_others_have_reported_once() -> None:
    talk = Talk(2)
    talk.hear(0, Reported(0, 0, {"loss": 1.0}, []))
    talk.hear(0, Reported(1, 1, {"loss": 10.0}, []))
    talk.hear(1, Reported(0, 0, {"loss": 3.0}, []))
    talk.hear(1, Reported(1, 1, {"loss": 30.0}, []))
    assert talk.reports == [(0, {"loss": 2.0}, None), (1, {"loss": 20.0}, None)]


def test_the_last_who_saves_writes_the_file_each_time_anew() -> None:
    talk = Talk(2)
    said = [talk.hear(rank, Saves(number)) for rank, number in [(0, 0), (0, 1), (1, 0), (1, 1)]]
    assert said == [[(0, Decided(False))], [(0, Decided(False))], [(1, Decided(True))], [(1, Decided(True))]]


def test_who_saves_or_evaluates_is_told_who_is_best_by_what_each_told_last() -> None:
    talk = Talk(2)
    talk.hear(0, Saves(0, badness=0.5))
    assert talk.hear(1, Saves(0, badness=0.25)) == [(1, Decided(True, best=1))]
    talk.hear(1, Reported(0, 0, {}, ["accuracy"], badness=0.75))
    assert talk.hear(0, Reported(0, 0, {}, ["accuracy"], badness=0.5)) == [(0, Decided(True, best=0))]
    talk.hear(0, ScriptCompleted(STATUS, badness=0.875))
    assert talk.hear(1, ScriptCompleted(STATUS, badness=0.75)) == to_all(Conclude([], [], best=1), 2)


def test_what_all_need_is_loaded_by_the_first_who_asks_and_the_others_wait_for_it() -> None:
    talk = Talk()
    assert talk.hear(1, OnceAsked("data")) == [(1, OnceAnswer(0, None))]
    assert talk.hear(0, OnceAsked("data")) == []
    assert talk.hear(1, OnceLoaded("data", b"form", 640)) == [(0, OnceAnswer(0, b"form"))]
    assert talk.hear(2, OnceAsked("data")) == [(2, OnceAnswer(0, b"form"))]
    assert talk.hear(2, OnceAsked("more data")) == [(2, OnceAnswer(640, None))]


def test_when_all_scripts_have_ended_worker_0_concludes_what_only_some_reported_or_saved() -> None:
    talk = Talk(3)
    talk.hear(0, Reported(0, 0, {"loss": 1.0}, ["accuracy"]))
    talk.hear(1, Reported(0, 0, {"loss": 3.0}, ["accuracy"]))
    talk.hear(1, Reported(1, 1, {"loss": 9.0}, []))
    talk.hear(0, Saves(0))
    talk.hear(1, Saves(1))
    assert talk.hear(0, ScriptCompleted(STATUS)) == []
    assert talk.hear(1, ScriptCompleted(STATUS)) == []
    told = [(rank, Conclude([0], [0] if rank == 0 else [])) for rank in range(3)]
    assert talk.hear(2, ScriptCompleted(STATUS)) == told, "only what worker 0 knows of"
    talk.hear(0, Evaluated(0, 0, {"accuracy": 0.5}))
    assert talk.reports == [(1, {"loss": 9.0}, None), (0, {"loss": 2.0, "accuracy": 0.5}, None)]


def test_the_run_is_over_when_all_have_said_their_last_word() -> None:
    talk = Talk(2)
    talk.join(joined(), joined())
    for rank in range(2):
        talk.hear(rank, ScriptCompleted(STATUS))
    assert talk.engine.run_s > 0.0
    assert talk.hear(0, Concluded(0.5, [])) == []
    assert not talk.engine.is_over
    assert talk.hear(1, Concluded(None, None)) == to_all(Conclude([], []), 2)
    assert talk.engine.is_over
    assert talk.engine.concluded == {0: Concluded(0.5, []), 1: Concluded(None, None)}


def test_the_first_to_ask_for_a_block_fixes_its_fractions_by_what_all_have_told() -> None:
    talk = Talk(2, share="proportional", block_steps=4)
    talk.join(joined(), joined())
    assert talk.engine.label == "allreduce share=proportional"
    nothing = ThroughputMeasured(0, 0.0, 0.0)
    assert talk.hear(1, FractionsAsked(0, 64, 0, nothing)) == [(1, FractionsTold([0.5, 0.5]))]
    assert talk.hear(0, FractionsAsked(0, 64, 0, nothing)) == [(0, FractionsTold([0.5, 0.5]))]
    assert talk.hear(0, ThroughputMeasured(8, 40.0, 3.0)) == []
    (answer,) = talk.hear(1, FractionsAsked(0, 64, 1, ThroughputMeasured(8, 40.0, 1.0)))
    assert answer == (1, FractionsTold([pytest.approx(0.25), pytest.approx(0.75)]))  # type: ignore[list-item]
    assert talk.hear(0, FractionsAsked(0, 64, 1, ThroughputMeasured(16, 80.0, 99.0))) == [(0, answer[1])]


def test_portions_come_from_one_queue_for_each_share() -> None:
    talk = Talk(2, "asgd", share="stealing")
    talk.join(joined(), joined())
    wanted = [talk.hear(rank, PortionRequested(share, 8, 2)) for rank, share in ((0, 0), (1, 0), (1, 0), (1, 1))]
    assert wanted == [[(rank, PortionTold(portion))] for rank, portion in ((0, 0), (1, 1), (1, None), (1, 0))]


@pytest.mark.parametrize(("share", "strategy"), [("proportional", "allreduce"), ("stealing", "asgd")])
def test_a_worker_that_comes_to_a_share_with_other_data_is_refused(share: str, strategy: str) -> None:
    talk = Talk(2, strategy, share=share)
    talk.join(joined(), joined())

    def ask(rank: int, num_samples: int) -> None:
        nothing = ThroughputMeasured(0, 0.0, 0.0)
        steals = share == "stealing"
        talk.hear(rank, PortionRequested(0, num_samples, 2) if steals else FractionsAsked(0, num_samples, 0, nothing))

    ask(1, 64)
    with pytest.raises(ConfigError, match="worker 0 came to share 1 with 96 samples, but worker 1 with 64"):
        ask(0, 96)


def test_a_strategy_of_the_script_that_cannot_share_so_is_refused_when_all_have_joined() -> None:
    with pytest.raises(ConfigError, match="the workers of 'gossip' wait for each other's steps"):
        Talk(2, share="stealing").join(joined("gossip"), joined("gossip"))
    Talk(2, share="stealing").join(joined("asgd"), joined("asgd"))


@pytest.mark.parametrize(("share", "strategy", "total"), [("proportional", "allreduce", 8), ("stealing", "asgd", 10)])
def test_steps_are_those_of_all_alike_or_on_average_when_workers_steal(share: str, strategy: str, total: int) -> None:
    talk = Talk(3, strategy, share=share)
    talk.join(joined(), joined(), joined())
    talk.hear(0, Planned(2, 50, 4, False))
    assert talk.engine.steps_total == total
