"""Weft's codecs as they are."""

import numpy as np

from weft.bench.contenders.gradients import Vector, compete, gradients, job_of
from weft.bench.serving import Task, own_task
from weft.codecs import BF16, DGC, FP8, FP16, QSGD, Codec, Form, Int8, OneBit, Payload, SignSGD, TernGrad, TopK, Turn

CODECS: dict[str, Codec] = {
    "fp16": FP16(),
    "bf16": BF16(),
    "fp8": FP8(),
    "int8": Int8(),
    "qsgd": QSGD(),
    "terngrad": TernGrad(),
    "onebit": OneBit(),
    "signsgd": SignSGD(),
    "topk": TopK(0.01),
    "blocktopk": TopK(k_of_block=16, block=512),
    "dgc": DGC(0.001, momentum=0.9, warmup_steps=0),
}


def main(task: Task) -> None:
    """Encode with feedback if the codec wants it."""
    job = job_of(task.work)
    codec, form, values = CODECS[job.codec], Form(job.num_elements), gradients(job.num_elements)
    residual = np.zeros_like(values) if codec.wants_feedback else None
    velocity = np.zeros_like(values) if job.codec == "dgc" else None
    said = np.empty_like(values)
    codec.prepare(form.itemsize)

    def encode() -> Payload:
        return codec.encode(values, residual, form, Turn(draw=1), velocity).payload

    def decode(payload: Payload) -> Vector:
        codec.decode(payload, said, form)
        return said

    compete(task, job, values, encode, decode)


if __name__ == "__main__":
    main(own_task())
