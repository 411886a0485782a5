"""Open MPI, with a stand-in for its library: it is not a requirement of the tests."""

import importlib
import sys
from types import SimpleNamespace

import pytest

from weft.bench.contenders import sums
from weft.bench.contenders.sums import Vector, values
from weft.bench.serving import Task

NAME = "weft.bench.contenders.mpi"


def test_open_mpi_sums_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def allreduce(place: str, vector: Vector) -> None:
        assert place == "in place"
        vector += values(0, vector.size) if vector.any() else 0

    world = SimpleNamespace(Get_rank=lambda: 1, Allreduce=allreduce)
    library = SimpleNamespace(MPI=SimpleNamespace(COMM_WORLD=world, IN_PLACE="in place"))
    served: list[Vector] = []
    monkeypatch.setitem(sys.modules, "mpi4py", library)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    monkeypatch.setattr(sums, "serve", lambda task, reduce: served.append(reduce()))
    importlib.import_module(NAME).main(Task("nowhere", "mpi", "64KiB", 2))
    sys.modules.pop(NAME)
    assert [vector.nbytes for vector in served] == [64 << 10]
