"""What a message's payload becomes: array maths and compiled kernels, no framework."""

from weft.codecs.bf16 import BF16
from weft.codecs.chain import Chain
from weft.codecs.codec import Codec, Encoded, Form, Payload, Turn
from weft.codecs.dgc import DGC
from weft.codecs.factors import Captured, Factors
from weft.codecs.fp8 import FP8
from weft.codecs.fp16 import FP16
from weft.codecs.int8 import Int8
from weft.codecs.nonzeros import Nonzeros
from weft.codecs.onebit import OneBit
from weft.codecs.powersgd import PowerSGD
from weft.codecs.qsgd import QSGD
from weft.codecs.randomk import RandomK
from weft.codecs.signsgd import SignSGD
from weft.codecs.terngrad import Peaks, TernGrad
from weft.codecs.threshold import Threshold
from weft.codecs.topk import TopK

__all__ = [
    "BF16",
    "DGC",
    "FP8",
    "FP16",
    "QSGD",
    "Captured",
    "Chain",
    "Codec",
    "Encoded",
    "Factors",
    "Form",
    "Int8",
    "Nonzeros",
    "OneBit",
    "Payload",
    "Peaks",
    "PowerSGD",
    "RandomK",
    "SignSGD",
    "TernGrad",
    "Threshold",
    "TopK",
    "Turn",
]
