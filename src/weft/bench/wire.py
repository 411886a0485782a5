"""`weft bench wire`: steps of real training loops whose workers talk over sockets, against DistributedDataParallel.

The workers are processes of one machine that behave as if they were apart (--transport tcp, --hosts 2), so the wire is
the loopback interface; DistributedDataParallel's Gloo uses it as it is, with neither encryption nor authentication.
Over emulated links of 1 Gbit/s, Weft starts DistributedDataParallel, too: its processes have to be in the network
namespaces that Weft makes.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import BenchmarkContender, netted_ddp, weft_with
from weft.bench.throughput import TRAINING

LINKS = "1gbit,0.2ms"
TCP, PLAIN, TLS, GIGABIT = "tcp", "plain", "tls", "1gbit"
WAYS: Mapping[str, Sequence[str]] = {
    TCP: ("--transport", "tcp"),
    PLAIN: ("--hosts", "2", "--set", "network.trusted=true"),
    TLS: ("--hosts", "2"),
    GIGABIT: ("--transport", "tcp", "--net", LINKS),
}
"""How Weft is started, by what a work's name ends with."""
RUNS = ((2, TCP), (2, PLAIN), (2, TLS), (4, PLAIN), (4, TLS), (2, GIGABIT))
WORKLOADS = ("mlp", "cnn", "transformer")
BARS = {("mlp", True): 0.95, ("mlp", False): 1.1}
"""By the workload, and whether Weft encrypts what it sends."""
OTHER_BARS = {True: 1.0, False: 1.05}
GIGABIT_BAR = 1.1


def bar(workload: str, way: str) -> float:
    return GIGABIT_BAR if way == GIGABIT else BARS.get((workload, way == TLS), OTHER_BARS[way == TLS])


def works(*ways: str) -> tuple[Work, ...]:
    """Each workload with each number of workers, over these ways."""
    return tuple(
        Work(f"{num}x{workload}-{way}", workload, num, launcher=partial(weft_with, WAYS[way]))
        for workload in WORKLOADS
        for num, way in RUNS
        if way in ways
    )


LOOPBACK, NETTED = works(TCP, PLAIN, TLS), works(GIGABIT)
ON_LOOPBACK, IN_NAMESPACES = tuple(work.name for work in LOOPBACK), tuple(work.name for work in NETTED)

WIRE = Benchmark(
    name="wire",
    unit="seconds of one step",
    works=(*LOOPBACK, *NETTED),
    contenders=(
        BenchmarkContender("weft", TRAINING),
        BenchmarkContender("ddp", TRAINING, only=ON_LOOPBACK),
        BenchmarkContender("ddp-view", TRAINING, rival="ddp", only=ON_LOOPBACK),
        BenchmarkContender(
            "ddp-netted",
            TRAINING,
            rival="ddp",
            only=IN_NAMESPACES,
            launcher=partial(netted_ddp, LINKS),
        ),
    ),
    bars={f"ddp/{num}x{workload}-{way}": bar(workload, way) for workload in WORKLOADS for num, way in RUNS},
    block_s=0.5,
)
