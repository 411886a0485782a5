"""Copying gradients once: the limit of any codec."""

import numpy as np

from weft.bench.contenders.gradients import gradients, job_of
from weft.bench.serving import Task, own_task, serve


def main(task: Task) -> None:
    """Whatever the codec."""
    values = gradients(job_of(task.work).num_elements)
    copy = np.empty_like(values)
    serve(task, lambda: np.copyto(copy, values))


if __name__ == "__main__":
    main(own_task())
