"""The environment of worker processes."""

from weft.engines.real.worker_env import KEEP_MEMORY, THREADS, TUNABLES, worker_env


def test_every_library_gets_the_same_number_of_threads() -> None:
    told = worker_env({"HOME": "/h", "OMP_NUM_THREADS": "8"}, 2, keeps_memory=False)
    assert {told[name] for name in THREADS} == {"2"}
    assert told["HOME"] == "/h"
    assert TUNABLES not in told


def test_the_allocator_keeps_memory_and_what_the_user_has_tuned_stays() -> None:
    assert worker_env({}, 1, keeps_memory=True)[TUNABLES].split(":") == [f"{n}={v}" for n, v in KEEP_MEMORY.items()]
    own = "glibc.malloc.hugetlb=0:glibc.malloc.arena_max=1"
    told = dict(each.split("=") for each in worker_env({TUNABLES: own}, 1, keeps_memory=True)[TUNABLES].split(":"))
    assert told == {**KEEP_MEMORY, "glibc.malloc.hugetlb": "0", "glibc.malloc.arena_max": "1"}
