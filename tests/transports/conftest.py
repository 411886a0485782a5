"""Two connected transports, for tests of what happens between them."""

from collections.abc import Iterator

import pytest
from support.network.meshes import Mesh


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    made = Mesh(2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def encrypted() -> Iterator[Mesh]:
    made = Mesh(2, is_encrypted=True)
    yield made
    made.close()
