"""`weft.join` and `weft.once`: the door through which a script comes in."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.scripts.training_scripts import ARRAYS_TRAIN, SEEN, simulated, write

import weft
from weft.adapters.arrays import ArrayWorker
from weft.core.errors import ConfigError

W = {"w": np.zeros(2)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {},
            "weft.join needs a model and its optimizer, or arrays.\n"
            "  Use weft.join(model, optimizer), or weft.join(arrays=..., optimizer=weft.SGD(lr=0.1)).",
        ),
        (
            {"arrays": W, "model": object(), "optimizer": weft.SGD(lr=1.0)},
            "weft.join was given arrays together with a model or a framework's optimizer.\n"
            "  Use weft.join(arrays=..., optimizer=weft.SGD(lr=0.1)), or weft.join(model, optimizer).",
        ),
        (
            {"arrays": W, "optimizer": object()},
            "weft.join was given arrays together with a model or a framework's optimizer.\n"
            "  Use weft.join(arrays=..., optimizer=weft.SGD(lr=0.1)), or weft.join(model, optimizer).",
        ),
        (
            {"arrays": W, "optimizer": weft.SGD(lr=1.0), "strategy": 3},
            "weft.join was given strategy=3, which is neither a name nor a strategy.\n"
            "  Use strategy='gossip' or strategy=weft.Gossip().",
        ),
        (
            {"arrays": W, "optimizer": weft.SGD(lr=1.0), "compress": 3},
            "weft.join was given compress=3, which is neither a name nor a codec.\n"
            "  Use e.g. compress='topk(0.01)' or compress=weft.TopK(0.01).",
        ),
    ],
)
def test_joining_with_the_wrong_things_says_what_to_join_with(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        weft.join(**given)
    assert str(refused.value) == message


def test_a_model_without_torch_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "weft.adapters.torch.join", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError) as refused:
        weft.join(object(), object())
    assert str(refused.value) == (
        "weft.join(model, optimizer) is for torch, which is not installed.\n"
        "  Install it: pip install 'weft[torch]'. For arrays: weft.join(arrays=..., optimizer=weft.SGD(lr=0.1))."
    )


def test_a_script_that_nobody_launched_is_alone() -> None:
    worker = weft.join(arrays=W, optimizer=weft.SGD(lr=1.0))
    assert isinstance(worker, ArrayWorker)
    assert (worker.rank, worker.num_workers) == (0, 1)


def test_once_runs_the_loader_with_its_arguments() -> None:
    assert weft.once(lambda a, b: a + b, 1, 2) == 3


ONCE = """
import numpy as np
import weft
from support.scripts.training_scripts import SEEN

def load(name):
    SEEN.append(name)
    return np.arange(3.0)

first, again, other = weft.once(load, "train"), weft.once(load, "train"), weft.once(load, "test")
assert first is again and first is not other
w = first.copy()
worker = weft.join(arrays={"w": w}, optimizer=weft.Momentum(lr=0.1))
"""


def test_once_loads_once_for_all_workers_and_once_for_each_argument(tmp_path: Path) -> None:
    outcome = simulated(write(tmp_path, ONCE, ARRAYS_TRAIN), 5)
    assert SEEN == ["train", "test"]
    assert outcome.facts.steps == [2] * 5


def test_loaders_without_code_are_told_apart_by_themselves(tmp_path: Path) -> None:
    text = ONCE.replace('weft.once(load, "train")', "weft.once(dict)").replace(
        'weft.once(load, "test")', "weft.once(list)"
    )
    text = text.replace("first.copy()", "np.zeros(3)")
    assert simulated(write(tmp_path, text, ARRAYS_TRAIN), 2).facts.steps == [6] * 2
