"""As much of a replica as a plain loop needs: the models stay the user's own."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from weft.adapters.torch.plain import plain_array
from weft.adapters.torch.replica import cloned, layout, save_tensors
from weft.adapters.torch.saving import check_finite
from weft.store.digest import digest


class PlainModel:
    """The models of a worker that is alone, or under a baseline that shares their gradients by itself."""

    buckets = ()

    def __init__(self, model: nn.Module) -> None:
        self.models = [model]

    @property
    def model(self) -> nn.Module:
        """All that joined: the model, or a list of several."""
        return self.models[0] if len(self.models) == 1 else nn.ModuleList(self.models)

    def layout(self) -> list[str]:
        return layout(self.model)

    def parameter_digests(self) -> dict[str, int]:
        """Of the parameters, by name, to compare between workers."""
        return {name: digest(plain_array(parameter)) for name, parameter in self.model.named_parameters()}

    def save(self, path: str, models: Mapping[str, Any], *, of: int | None = None, allow_nan: bool = False) -> None:
        """Members of an ensemble are alike where a plain loop runs."""
        model = self.model if of is None else self.models[of]
        tensors = {name: value for prefix in models for name, value in cloned(model, prefix).items()}
        if not allow_nan:
            check_finite(path, tensors, model, models)
        save_tensors(path, tensors)
