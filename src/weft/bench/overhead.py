"""`weft bench overhead`: one worker under Weft against the same loop without Weft."""

from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import BenchmarkContender, weft_run
from weft.bench.throughput import TRAINING

OVERHEAD = Benchmark(
    name="overhead",
    unit="seconds of one step",
    works=(Work("cnn", "cnn", 1),),
    contenders=(
        BenchmarkContender("weft", TRAINING, launcher=weft_run),
        BenchmarkContender("bare", TRAINING),
        BenchmarkContender("bare-kept", TRAINING, keeps_memory=True),
    ),
    bars={"bare/cnn": 0.98},
    block_s=0.5,
)
