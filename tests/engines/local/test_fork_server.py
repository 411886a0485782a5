"""The fork server: what it imports in advance, and how descriptors reach it."""

import os
import socket
from pathlib import Path

import msgspec

from weft.engines.local.fork_server import FDS_PER_MESSAGE, ForkOrder, heavy_imports, receive_fds, send_fds


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


def test_more_descriptors_than_fit_into_one_message_arrive_in_order() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pipes = [os.pipe() for _ in range(FDS_PER_MESSAGE // 2 + 10)]
    fds = [fd for pipe in pipes for fd in pipe]
    with ours, theirs:
        send_fds(ours, msgspec.json.encode(ForkOrder(num_workers=3, num_fds=len(fds))), fds)
        received = receive_fds(theirs)
        assert received is not None
        ours.close()
        assert receive_fds(theirs) is None
    assert msgspec.json.decode(received[0], type=ForkOrder) == ForkOrder(num_workers=3, num_fds=len(fds))
    assert [os.fstat(fd).st_ino for fd in received[1]] == [os.fstat(fd).st_ino for fd in fds]
    for fd in (*fds, *received[1]):
        os.close(fd)
