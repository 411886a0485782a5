"""The models of a plain loop: their layouts and files."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from weft.adapters.torch.plain_model import PlainModel


def test_one_model_has_its_own_names_and_several_have_numbers_before_them(tmp_path: Path) -> None:
    plain = PlainModel(nn.Linear(1, 1))
    assert plain.layout() == ["weight (1, 1) torch.float32", "bias (1,) torch.float32"]
    plain.models.append(nn.Linear(2, 1))
    assert plain.layout()[2] == "1.weight (1, 2) torch.float32"
    plain.save(str(tmp_path / "all.safetensors"), {"": []})
    assert sorted(load_file(tmp_path / "all.safetensors")) == ["0.bias", "0.weight", "1.bias", "1.weight"]


def test_one_of_several_models_can_be_saved_alone(tmp_path: Path) -> None:
    path, plain = str(tmp_path / "one.safetensors"), PlainModel(nn.Linear(1, 1))
    plain.models.append(nn.Linear(2, 1))
    plain.save(path, {"": []}, of=1)
    assert torch.equal(load_file(path)["weight"], plain.models[1].weight)  # type: ignore[arg-type]
