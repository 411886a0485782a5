"""Measures how fast codecs are on this machine, for cluster files."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from weft.codecs.codec import Array, Codec, Form, Turn
from weft.codecs.nonzeros import Nonzeros
from weft.config.registry import CODECS
from weft.cost.coding import Throughput

SIDE = 1024
REPEATS = 3
FORM = Form(SIDE * SIDE, 4, ((0, (SIDE, SIDE)),))
TURN = Turn(1 << 40)
"""A turn long after the warm-up of any codec."""


def codec_speeds() -> dict[str, Throughput]:
    """The throughput of each codec, and of each stage of those that have several, on a matrix of a million numbers."""
    values = np.random.default_rng(0).standard_normal(FORM.num_elements).astype(np.float32)
    speeds: dict[str, Throughput] = {}
    for codec in (*(cls() for cls in CODECS.values() if not cls.captures), Nonzeros()):
        speeds.update(_speeds(codec, values))
    return speeds


def _speeds(codec: Codec, values: Array) -> dict[str, Throughput]:
    stages, given = codec.stages(), None
    residual = np.zeros_like(values) if codec.wants_feedback and len(stages) == 1 else None
    speeds = {}
    for stage in stages:
        payload = stage.encode(values, residual, FORM, TURN, given).payload
        encode_s = _best(partial(stage.encode, values, residual, FORM, TURN, given))
        decode_s = encode_s  # a stage whose output only feeds the next stage is never decoded
        if stage is stages[-1]:
            decode_s = _best(partial(stage.add, payload, np.zeros_like(values), 1.0, FORM, given))
        speeds[type(stage).__name__.lower()] = Throughput(values.nbytes / encode_s, values.nbytes / decode_s)
        given = payload
    return speeds


def _best(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
