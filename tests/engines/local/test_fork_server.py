"""The fork server: what it imports in advance."""

from pathlib import Path

from weft.engines.local.fork_server import heavy_imports


def test_heavy_modules_at_the_top_of_a_script_are_imported_once_for_all(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import json\nimport numpy as np\nfrom sklearn.datasets import load\nfrom . import torch\n")
    assert heavy_imports(script) == ["numpy", "sklearn.datasets", "weft.adapters.arrays"]
    script.write_text("import torch\nif True:\n    import pandas\n")
    assert heavy_imports(script) == ["torch", "torch._dynamo", "weft.adapters.torch.join"]


def test_a_script_that_cannot_be_read_is_left_to_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import (\n")
    assert heavy_imports(script) == []
    script.write_bytes(b"import torch\0")
    assert heavy_imports(script) == []
