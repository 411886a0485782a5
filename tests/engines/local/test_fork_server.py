"""The fork server: what it imports in advance."""

import gc
import sys
from pathlib import Path

import pytest

from weft.engines.local.fork_server import heavy_imports, import_ahead


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


def test_the_collector_rests_while_modules_are_imported_ahead_and_not_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ahead_broken.py").write_text("raise OSError\n")
    (tmp_path / "ahead_sound.py").write_text("import gc\nkept = []\ncollects = gc.isenabled()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        import_ahead(["ahead_broken", "ahead_missing", "ahead_sound"])
        sound = sys.modules.pop("ahead_sound")
        assert (sound.collects, gc.isenabled()) == (False, True)
        assert not any(one is sound.kept for one in gc.get_objects())  # frozen
    finally:
        gc.unfreeze()
