"""`weft bench wire`."""

from weft.bench.contender import script_of
from weft.bench.contenders.training import TOGETHER
from weft.bench.wire import WIRE


def test_every_workload_goes_over_every_way() -> None:
    names = {work.name for work in WIRE.works}
    assert len(names) == len(WIRE.works) == 18
    assert {"2xmlp-tcp", "2xmlp-plain", "2xmlp-tls", "4xmlp-plain", "4xmlp-tls", "2xcnn-tls", "2xcnn-1gbit"} < names
    assert {one.name for one in WIRE.contenders} <= set(TOGETHER)


def test_only_weft_is_started_as_the_work_says() -> None:
    work = next(work for work in WIRE.works if work.name == "4xcnn-plain")
    weft, ddp, *_ = WIRE.contenders
    assert work.started(ddp) is ddp
    launcher = work.started(weft).launcher
    assert launcher is not None
    command = " ".join(launcher(weft.module, work.num_processes, "task"))
    assert command.endswith("training.py -n 4 --hosts 2 --set network.trusted=true -- task")


def test_in_namespaces_weft_starts_its_rival_too_and_on_loopback_torch_does() -> None:
    (netted,) = (work for work in WIRE.works if work.name == "2xmlp-1gbit")
    _, rival = WIRE.competing(netted)
    assert (rival.name, rival.ratio_name) == ("ddp-netted", "ddp")
    assert rival.launcher is not None
    command = " ".join(rival.launcher(rival.module, 2, "task"))
    assert command.endswith("-m weft.bench.netted_ddp " + str(script_of(rival.module)) + " 2 1gbit,0.2ms task")
    assert [one.name for one in WIRE.competing(WIRE.works[0])] == ["weft", "ddp", "ddp-view"]


def test_there_is_a_bar_for_every_work_and_a_lower_one_where_only_weft_encrypts() -> None:
    assert WIRE.bars.keys() == {f"ddp/{work.name}" for work in WIRE.works}
    assert (WIRE.bars["ddp/2xmlp-tcp"], WIRE.bars["ddp/2xmlp-tls"]) == (1.1, 0.95)
    assert WIRE.bars["ddp/2xtransformer-1gbit"] == 1.1
    assert (WIRE.bars["ddp/2xcnn-plain"], WIRE.bars["ddp/4xtransformer-tls"]) == (1.05, 1.0)
