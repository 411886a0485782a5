"""The work of `weft bench codecs`: the same gradients for all, a round trip that is checked once, then blocks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.bench.codecs import DECODING
from weft.bench.contenders.sums import num_elements
from weft.bench.serving import Task, serve

Vector = NDArray[np.float32]

ERRORS_MAX = {
    "fp16": 4e-4,
    "bf16": 3e-3,
    "fp8": 4e-2,
    "int8": 1.5e-2,
    "qsgd": 0.3,
    "terngrad": 1.5,
    "onebit": 0.61,
    "topk": 0.97,
    "blocktopk": 0.93,
    "dgc": 0.995,
    "signsgd": 1.0,
}
"""How far decoded gradients may be from the gradients themselves, as a share of their norm."""


class CodecCase(NamedTuple):
    """'onebit-decode/64MiB': which codec, how many numbers, and which way."""

    codec: str
    num_elements: int
    decodes: bool


def job_of(work: str) -> CodecCase:
    """What a task asks for."""
    name, size = work.split("/")
    return CodecCase(name.removesuffix(DECODING), num_elements(size), name.endswith(DECODING))


def gradients(number: int) -> Vector:
    """As small as gradients are, normally distributed."""
    return np.random.default_rng(0).standard_normal(number, np.float32) * np.float32(1e-3)


def compete(
    task: Task, job: CodecCase, values: Vector, encode: Callable[[], Any], decode: Callable[[Any], Vector]
) -> None:
    """Serve blocks of one way, once a round trip was right. Signs are compared with the signs."""
    payload = encode()
    said = decode(payload).astype(np.float64)
    wanted = np.sign(values) if job.codec == "signsgd" else values
    error = float(np.linalg.norm(said - wanted) / np.linalg.norm(wanted))
    if not error <= ERRORS_MAX[job.codec]:
        raise ArithmeticError(
            f"'{job.codec}' is wrong by {error:.3g} of the norm, but by {ERRORS_MAX[job.codec]} at most."
        )
    serve(task, (lambda: decode(payload)) if job.decodes else encode)
