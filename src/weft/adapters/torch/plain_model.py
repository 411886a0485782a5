"""The replica of a plain loop: the models stay the user's own, without buckets."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from weft.adapters.torch.plain import plain_array
from weft.adapters.torch.replica import cloned, layout, save_tensors
from weft.adapters.torch.saving import check_finite
from weft.store.digest import digest


class PlainModel:
    """The models of a single worker, or of one under a baseline, where DDP averages the gradients."""

    buckets = ()

    def __init__(self, model: nn.Module) -> None:
        self.models = [model]

    @property
    def model(self) -> nn.Module:
        """The model that joined, or a ModuleList of several."""
        return self.models[0] if len(self.models) == 1 else nn.ModuleList(self.models)

    def layout(self) -> list[str]:
        return layout(self.model)

    def parameter_digests(self) -> dict[str, int]:
        """Digests of the parameters by name, for comparison between workers."""
        return {name: digest(plain_array(parameter)) for name, parameter in self.model.named_parameters()}

    def save(self, path: str, models: Mapping[str, Any], *, of: int | None = None, allow_nan: bool = False) -> None:
        """Save the models; all members of an ensemble are equal here."""
        model = self.model if of is None else self.models[of]
        tensors = {name: value for prefix in models for name, value in cloned(model, prefix).items()}
        if not allow_nan:
            check_finite(path, tensors, model, models)
        save_tensors(path, tensors)
