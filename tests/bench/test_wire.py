"""`weft bench wire`."""

from weft.bench.contenders.training import TOGETHER
from weft.bench.wire import WIRE


def test_every_workload_goes_over_every_way() -> None:
    names = {work.name for work in WIRE.works}
    assert len(names) == len(WIRE.works) == 15
    assert {"2xmlp-tcp", "2xmlp-plain", "2xmlp-tls", "4xmlp-plain", "4xmlp-tls", "2xcnn-tls"} < names
    assert {one.name for one in WIRE.contenders} <= set(TOGETHER)


def test_only_weft_is_started_as_the_work_says() -> None:
    work = next(work for work in WIRE.works if work.name == "4xcnn-plain")
    weft, ddp, _ = WIRE.contenders
    assert work.started(ddp) is ddp
    launcher = work.started(weft).launcher
    assert launcher is not None
    command = " ".join(launcher(weft.module, work.num_processes, "task"))
    assert command.endswith("training.py -n 4 --hosts 2 --set network.trusted=true -- task")


def test_there_is_a_bar_for_every_work_and_a_lower_one_where_only_weft_encrypts() -> None:
    assert WIRE.bars.keys() == {f"ddp/{work.name}" for work in WIRE.works}
    assert (WIRE.bars["ddp/2xmlp-tcp"], WIRE.bars["ddp/2xmlp-tls"]) == (1.1, 0.95)
    assert (WIRE.bars["ddp/2xcnn-plain"], WIRE.bars["ddp/4xtransformer-tls"]) == (1.05, 1.0)
