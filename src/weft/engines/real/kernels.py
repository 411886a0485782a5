"""Compiles a codec's kernels before any process starts: once per machine, and never in the first step."""

import sys
import threading
from collections.abc import Callable

from weft.codecs.codec import Codec
from weft.codecs.nonzeros import Nonzeros
from weft.config.compression import SPARSE, said, schemes
from weft.config.compression import codec as codec_of
from weft.engines.real import timeouts

ROOM = "weft.codecs.kernels."
FLOAT32 = 4


def compile_kernels(compress: str | None, tell: Callable[[str], None] = lambda text: None) -> list[str]:
    """Compile, or load, the kernels of a codec. Returns the names of their modules, for the fork server to import."""
    if compress is None or said(compress) is None:
        return []
    codec = codec_of(compress)
    words = f"compiling '{compress}' for this machine, once: that may take a minute"
    timer = threading.Timer(timeouts.COMPILING_TOLD_S, tell, (words,))
    timer.start()
    try:
        for stage in _stages(codec):
            if not stage.captures:
                stage.prepare(FLOAT32)
    finally:
        timer.cancel()
    return sorted(name for name in sys.modules if name.startswith(ROOM))


def _stages(codec: Codec) -> tuple[Codec, ...]:
    """The stages with which a run with `codec` may encode, including those of the sparse scheme."""
    return (*codec.stages(), *((Nonzeros(),) if SPARSE in schemes(codec) else ()))
