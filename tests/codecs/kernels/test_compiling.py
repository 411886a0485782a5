"""How loops are compiled."""

import subprocess
import sys
from typing import Any

import numpy as np

from weft.codecs.kernels import sparse


def test_kernels_are_compiled_for_locked_arrays_that_begin_anywhere_and_for_nothing_else() -> None:
    memory = np.zeros(13, np.uint8)
    counts, offsets = memory[1:5].view(np.uint32), memory[5:9].view(np.uint16)
    offsets[1] = 1
    counts[0] = 2
    memory.flags.writeable = False
    assert sparse.are_right(counts, offsets, 2)
    assert not sparse.are_right(counts, offsets, 1)
    compiled: Any = sparse.are_right
    assert len(compiled.signatures) == 1


def test_importing_codecs_loads_no_compiler() -> None:
    code = "import sys, weft.codecs; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
