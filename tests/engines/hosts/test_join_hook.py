"""Scripts that nobody has put anywhere are alone; `tests/engines/hosts/test_bootstrap.py` has the others."""

import sys

import pytest

from weft.core.errors import ConfigError, TransportError
from weft.engines.hosts import join_hook, timeouts
from weft.engines.hosts.join_hook import find_seat


def test_a_script_that_nobody_has_started_has_no_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": "/bin"})
    assert find_seat() is None


def test_a_place_that_makes_no_sense_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"RANK": "5", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    with pytest.raises(ConfigError, match="rank 5 of 2"):
        find_seat()


def test_a_script_under_mpiexec_is_not_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"})
    with pytest.raises(ConfigError, match="Weft has no MPI rendezvous yet"):
        find_seat()


def test_a_store_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    monkeypatch.setattr(timeouts, "STORE_S_MAX", 0.2)
    monkeypatch.setattr("sys.excepthook", sys.excepthook)  # put back when this is over
    with pytest.raises(TransportError, match=r"the store at 127.0.0.1:1"):
        find_seat()


def test_a_run_of_several_processes_without_torch_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"torchrun or srun has started needs torch.*\n.*pip install 'weft\[torch\]'"):
        find_seat()


def test_what_weft_says_is_said_in_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[BaseException] = []

    def show(kind: type[BaseException], error: BaseException, trace: object) -> None:
        shown.append(error)

    own, ours = ValueError("mine"), ConfigError("no secret.\n  Make one.")
    for error in (own, ours):
        join_hook._show_briefly(3, show, type(error), error, None)
    assert shown == [own]
    assert capsys.readouterr().err == "weft: worker 3: no secret.\n  Make one.\n"
