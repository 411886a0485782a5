"""One Ray cluster of two nodes for all tests that need one."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes.ray_nodes import Nodes, ray_nodes


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """The cluster; its folder has a short name, for Ray's sockets are below it."""
    with tempfile.TemporaryDirectory(prefix="ray-") as folder, ray_nodes(Path(folder)) as cluster:
        yield cluster
