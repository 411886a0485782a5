"""Makes a strategy's codecs ready for the replicas of a process: checked, compiled, and told what only those know."""

from collections.abc import Mapping, Sequence
from typing import Any

from weft.codecs.codec import Codec
from weft.core.errors import ConfigError
from weft.core.seat import Replica
from weft.core.strategy import Strategy
from weft.store.coded import shape_of


def ready_codecs(strategy: Strategy, replicas: Sequence[Replica]) -> dict[str, Codec]:
    """The codec of each kind. Raises ConfigError when the model, or its optimizer, is not for them."""
    asked: Mapping[str, Any] = strategy.codecs()
    buckets = [bucket for bucket in replicas[0].buckets if bucket.trainable]
    ready: dict[Codec, Codec] = {}
    for codec in dict.fromkeys(asked.values()):
        if codec.wants_feedback and replicas[0].num_optimizers > 1:
            raise ConfigError(
                f"'{codec}' says later what it leaves out of a gradient, but {replicas[0].num_optimizers} optimizers "
                "joined, and a step of one would say what is another's.\n  Use 'fp16', 'qsgd' or another codec that "
                "leaves nothing out, or one optimizer with several groups."
            )
        codec.check_forms([shape_of(bucket, None).form for bucket in buckets])
        ready[codec] = codec
        if codec.takes_momentum:
            momentum, *_ = [replica.give_up_momentum() for replica in replicas]
            ready[codec] = codec.taking_over(momentum)
        if codec.captures:
            for replica in replicas:
                replica.capture_factors()
        for itemsize in {bucket.itemsize for bucket in buckets}:
            codec.prepare(itemsize)
    return {kind: ready[codec] for kind, codec in asked.items()}
