"""The environment of worker processes: number of threads, and malloc settings that keep freed memory (GLIBC_TUNABLES).

A training step frees its large tensors, and the next one allocates the same again. By default, glibc returns such
memory to the kernel and gets it back page by page, zeroed: a fifth of a step's time for large layers. Workers keep it,
and ask for huge pages where the system grants them.
"""

from collections.abc import Mapping

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
TUNABLES = "GLIBC_TUNABLES"
KEEP_MEMORY = {
    "glibc.malloc.hugetlb": "1",
    "glibc.malloc.mmap_threshold": str(1 << 40),
    "glibc.malloc.trim_threshold": str(1 << 40),
}


def worker_env(environment: Mapping[str, str], threads: int, *, keeps_memory: bool) -> dict[str, str]:
    """The environment of workers: `threads` for BLAS and OpenMP and, if `keeps_memory`, GLIBC_TUNABLES for malloc.

    Tunables that the user has set in `environment` win.
    """
    ours = {**environment, **dict.fromkeys(THREADS, str(threads)), "PYTHONUNBUFFERED": "1"}
    if keeps_memory:
        theirs = dict(each.split("=", 1) for each in environment.get(TUNABLES, "").split(":") if "=" in each)
        ours[TUNABLES] = ":".join(f"{name}={value}" for name, value in {**KEEP_MEMORY, **theirs}.items())
    return ours
