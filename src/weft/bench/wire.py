"""`weft bench wire`: steps of real training loops whose workers talk over sockets, against DistributedDataParallel.

The workers are processes of one machine that behave as if they were apart (--transport tcp, --hosts 2), so the wire is
the loopback interface; DistributedDataParallel's Gloo uses it as it is, with neither encryption nor authentication.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import BenchmarkContender, weft_with
from weft.bench.throughput import TRAINING

TCP, PLAIN, TLS = "tcp", "plain", "tls"
WAYS: Mapping[str, Sequence[str]] = {
    TCP: ("--transport", "tcp"),
    PLAIN: ("--hosts", "2", "--set", "network.trusted=true"),
    TLS: ("--hosts", "2"),
}
"""How Weft is started, by what a work's name ends with."""
RUNS = ((2, TCP), (2, PLAIN), (2, TLS), (4, PLAIN), (4, TLS))
WORKLOADS = ("mlp", "cnn", "transformer")
BARS = {("mlp", True): 0.95, ("mlp", False): 1.1}
"""By the workload, and whether Weft encrypts what it sends."""
OTHER_BARS = {True: 1.0, False: 1.05}

WIRE = Benchmark(
    name="wire",
    unit="seconds of one step",
    works=tuple(
        Work(f"{num}x{workload}-{way}", workload, num, launcher=partial(weft_with, WAYS[way]))
        for workload in WORKLOADS
        for num, way in RUNS
    ),
    contenders=(
        BenchmarkContender("weft", TRAINING),
        BenchmarkContender("ddp", TRAINING),
        BenchmarkContender("ddp-view", TRAINING, rival="ddp"),
    ),
    bars={
        f"ddp/{num}x{workload}-{way}": BARS.get((workload, way == TLS), OTHER_BARS[way == TLS])
        for workload in WORKLOADS
        for num, way in RUNS
    },
    block_s=0.5,
)
