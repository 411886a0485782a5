"""`weft bench overhead`: one worker under Weft against the same loop without Weft."""

from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import Contender, weft_run
from weft.bench.throughput import TRAINING

OVERHEAD = Benchmark(
    name="overhead",
    unit="seconds of one step",
    works=(Work("cnn", "cnn", 1),),
    contenders=(
        Contender("weft", TRAINING, launcher=weft_run),
        Contender("bare", TRAINING),
        Contender("bare-kept", TRAINING, keeps_memory=True),
    ),
    bars={"bare/cnn": 0.98},
    block_s=0.5,
)
