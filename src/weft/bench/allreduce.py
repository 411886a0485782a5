"""`weft bench allreduce`: the sum of a float32 vector over the processes of this machine."""

from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import BenchmarkContender, missing_mpi, mpirun, weft_run

SIZES = ("64KiB", "1MiB", "16MiB", "128MiB")

ALLREDUCE = Benchmark(
    name="allreduce",
    unit="seconds of one sum",
    works=tuple(Work(f"{n}x{size}", size, n) for n in (2, 4) for size in SIZES),
    contenders=(
        BenchmarkContender("weft", "weft.bench.contenders.weft_sum", launcher=weft_run),
        BenchmarkContender("gloo", "weft.bench.contenders.gloo"),
        BenchmarkContender("mpi", "weft.bench.contenders.mpi", launcher=mpirun, missing=missing_mpi),
        BenchmarkContender("memcpy", "weft.bench.contenders.memcpy", is_alone=True),
    ),
    bars={
        "gloo/4x16MiB": 6.0,
        "gloo/4x128MiB": 6.0,
        "mpi/4x16MiB": 2.0,
        "mpi/4x128MiB": 2.0,
        "mpi/2x64KiB": 0.8,
        "mpi/4x64KiB": 0.8,
    },
    block_s=0.2,
)
