"""`weft bench codecs`: 64 MiB of gradients into payloads and back, one thread each."""

from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import BenchmarkContender

NAMES = ("fp16", "bf16", "fp8", "int8", "qsgd", "terngrad", "onebit", "signsgd", "topk", "blocktopk", "dgc")
DECODING = "-decode"
SIZE = "64MiB"
BLOCKS = ("blocktopk", f"blocktopk{DECODING}")
"""The 16 largest of each 512; they compete with the largest hundredth of all, too, which is a third as many."""

CODECS = Benchmark(
    name="codecs",
    unit=f"seconds to encode {SIZE} (with feedback if the codec wants it), or to decode",
    works=tuple(Work(f"{name}{way}", f"{name}{way}/{SIZE}", 1) for way in ("", DECODING) for name in NAMES),
    contenders=(
        BenchmarkContender("weft", "weft.bench.contenders.weft_codec", keeps_memory=True),
        BenchmarkContender("torch", "weft.bench.contenders.torch_codec", keeps_memory=True),
        BenchmarkContender("topk", "weft.bench.contenders.plain_topk", keeps_memory=True, only=BLOCKS),
        BenchmarkContender("memcpy", "weft.bench.contenders.codec_copy", keeps_memory=True),
    ),
    bars={
        "memcpy/onebit": 0.4,
        "memcpy/topk": 0.15,
        "topk/blocktopk": 0.7,
        **{f"torch/{name}": 3.0 for name in ("onebit", "qsgd", "terngrad", "topk", "dgc")},
        **{f"torch/{name}{way}": 0.95 for name in ("fp16", "bf16") for way in ("", DECODING)},
    },
    block_s=0.15,
)
