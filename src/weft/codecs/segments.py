"""Where an array is cut: at its tensors, or into blocks of one size."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from weft.codecs.codec import Form


@lru_cache(maxsize=256)
def bounds(form: Form, block: int | None) -> NDArray[np.int64]:
    """Where pieces begin, and the end: each tensor is one, and what lies between two; or each block."""
    if block is not None:
        edges = {*range(0, form.num_elements, block), form.num_elements}
    else:
        edges = {0, form.num_elements}
        for start, shape in form.tensors:
            edges |= {start, start + int(np.prod(shape, dtype=np.int64))}
    cut = np.array(sorted(edges), np.int64)
    cut.flags.writeable = False
    return cut
