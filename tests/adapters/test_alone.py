"""The seat of a script that nobody launched."""

import errno

import numpy as np
import pytest

import weft
from weft.adapters.alone import Alone
from weft.adapters.array_replica import ArrayReplica
from weft.core.names import GRADIENT, PARAMS


def test_alone_is_one_worker_that_never_stops_early() -> None:
    seat = Alone()
    assert (seat.rank, seat.num_workers, seat.seed, seat.steps_max) == (0, 1, 0, None)


def test_a_step_is_the_users_optimizer_and_nothing_else() -> None:
    replica = ArrayReplica({"w": np.array([1.0, 2.0])}, weft.SGD(lr=0.5), None)
    seat = Alone()
    seat.join(replica, None)
    replica.array(GRADIENT, 0)[:] = [1.0, -1.0]
    seat.backward_finished(4)
    assert replica.array(PARAMS, 0).tolist() == [1.0, 2.0]
    seat.step_finished(4, 0.1)
    assert replica.array(PARAMS, 0).tolist() == [0.5, 2.5]


def test_reports_are_printed_and_callables_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    Alone().report(2, {"loss": 0.25, "accuracy": lambda: 1})
    assert capsys.readouterr().out == "epoch   3  loss 0.2500  accuracy 1.0000\n"


def test_nobody_deals_portions() -> None:
    assert Alone().portions(4, 9) is None


def test_once_loads() -> None:
    assert Alone().once("key", lambda: 7) == 7


def test_a_disk_that_is_full_ends_no_training(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, models: object, *, of: int | None, allow_nan: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    seat, replica = Alone(), ArrayReplica({"w": np.zeros(2)}, weft.SGD(lr=0.5), None)
    seat.join(replica, None)
    monkeypatch.setattr(replica, "save", full)
    seat.save("model", "result")
    assert capsys.readouterr().err == (
        "weft: 'model' is NOT saved: No space left on device. "
        "Training goes on; a file that was there before is as it was.\n"
    )
