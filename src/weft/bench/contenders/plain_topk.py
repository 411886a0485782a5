"""Weft's top-k of all numbers, beside that of blocks."""

from dataclasses import replace

from weft.bench.contenders.weft_codec import main
from weft.bench.serving import own_task

if __name__ == "__main__":
    task = own_task()
    main(replace(task, work=task.work.removeprefix("block")))
