"""`weft bench throughput`: steps of real training loops, against DistributedDataParallel and no communication."""

from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import BenchmarkContender, mortal_run, weft_run

TRAINING = "weft.bench.contenders.training"
WORKLOADS = ("cnn", "mlp", "mlp-clip", "transformer")

THROUGHPUT = Benchmark(
    name="throughput",
    unit="seconds of one step",
    works=(
        *(Work(name, name, 2) for name in WORKLOADS),
        *(Work(f"4x{name}", name, 4, rounds_share=1 / 3) for name in WORKLOADS),
    ),
    contenders=(
        BenchmarkContender("weft", TRAINING, launcher=weft_run),
        BenchmarkContender("weft-stop", TRAINING, launcher=mortal_run, rival="off"),
        BenchmarkContender("ddp", TRAINING),
        BenchmarkContender("ddp-view", TRAINING, rival="ddp"),
        BenchmarkContender("ddp-kept", TRAINING, keeps_memory=True),
        BenchmarkContender("nocomm", TRAINING),
    ),
    bars={
        "ddp/cnn": 1.05,
        "ddp/mlp": 1.25,
        "ddp/mlp-clip": 1.15,
        "ddp/transformer": 1.05,
        **{f"nocomm/{name}": 0.93 for name in WORKLOADS},
        **{f"off/{name}": 0.98 for name in WORKLOADS},  # the cost of survival while nothing fails
    },
    block_s=0.5,
)
