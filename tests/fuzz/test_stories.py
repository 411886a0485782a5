"""Stories are for people."""

from dataclasses import replace

from weft.core.actions import Compute, Encode, SetTimer, Stop
from weft.core.events import PortionAsked, TimerFired
from weft.core.names import Buffer
from weft.fuzz import stories
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Crash, Faults


def test_the_opening_names_the_world_and_its_faults() -> None:
    scenario = replace(draw(2, ("async_gossip(topology=ring)",)), faults=Faults((Crash(1, 0.5),)))
    lines = list(stories.opening(scenario))
    assert lines[0] == (
        f"seed 2: async_gossip(topology=ring), {scenario.num_workers} workers, {scenario.num_steps} steps"
    )
    assert lines[1:] == ["  fault 0: Crash(worker=1, at_s=0.5)"]


def test_the_opening_says_what_is_coded_and_how() -> None:
    plain = replace(draw(2, ("allreduce",)), collective="ring", compress="topk(0.01)", scheme="gather")
    assert next(stories.opening(plain)).startswith("seed 2: allreduce + topk(0.01) by 'gather' over ring, ")
    pushed = replace(draw(2, ("ps(servers=1)",)), compress="onebit", scheme=None)
    assert next(stories.opening(pushed)).startswith("seed 2: ps(servers=1) + onebit, ")


def test_a_story_tells_every_event_and_answer_and_the_views_between() -> None:
    faults = Faults((Crash(1, 0.05),), notice_s=0.01)
    evidence = run(replace(draw(2, ("async_gossip(topology=ring)",)), faults=faults))
    lines = list(stories.tell(evidence))
    assert lines[0] == "   0.000000 s  worker 0   started in view 0"
    assert lines[1] == "                         -> compute step 0"
    assert any(line.startswith("   0.060000 s  view 1: lost worker 1 (left: worker 0") for line in lines)
    for words in (
        "heard of view 1: lost worker 1",
        "finished step 0",
        "is ready (",
        "received 'offer' [0] of clock 1",
        "got back '",
        "reported epoch 0",
        "-> async_gossip.delta[0] = 0.5 * inbox[0]",
        "-> apply gradient[0] to params[0] by 'inner', scale 1",
        "-> note staleness = ",
        "-> send 'answer' [0] of clock 1 (weight 1) to worker",
    ):
        assert any(words in line for line in lines), words


def test_one_node_and_a_time_can_be_asked_for() -> None:
    evidence = run(draw(2, ("async_gossip",)))
    lines = [line for line in stories.tell(evidence, until_s=0.05, node=1) if "->" not in line]
    assert lines
    assert all("worker 1" in line and float(line.split()[0]) <= 0.05 for line in lines)


def test_rare_words_are_told_too() -> None:
    world = run(draw(0, ("async_gossip",))).world
    assert stories._said(TimerFired("tea"), world) == "timer 'tea' fired"
    assert stories._said(PortionAsked(2, 8), world) == "asked for one of the 8 portions of share 2"
    encode = Encode("push", 3, Buffer("push:coded", 0), Buffer("gradient", 0), Buffer("push:residual", 0))
    assert list(stories._answered([encode], world)) == [
        "encode gradient[0] as push:coded[0], the rest stays in push:residual[0]"
    ]
    told = list(stories._answered([SetTimer("tea", 2.0), Stop("enough"), Compute(3, 5)], world))
    assert told == ["set timer 'tea' for 2.000000 s", "stop: enough", "compute step 3 on portion 5"]
