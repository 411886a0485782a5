"""Checks what of a torch model may be saved: parameters must be finite, and buffers without NaN."""

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from weft.core.seat import check_savable


def check_finite(path: str, tensors: Mapping[str, Tensor], model: nn.Module, prefixes: Iterable[str]) -> None:
    """Raise CheckpointError for the first tensor of a file that is not fit to be saved, by name.

    In a file with several models, each one's names begin with its prefix. Infinite numbers in buffers are masks, as a
    rule, so they may be saved.
    """
    own = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    parameters = {prefix + name for prefix in prefixes for name in own}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            is_bad = ~tensor.isfinite() if name in parameters else tensor.isnan()
            check_savable(path, name, int(is_bad.sum()))
