"""Saves and restores torch's global state (random numbers and modes) for each simulated worker."""

import sys
from typing import Any, NamedTuple

AUTOCAST_DEVICE = "cpu"


class Fresh(NamedTuple):
    """The state of a worker that has not run yet, when torch may not even be imported."""

    seed: int


class TorchSwapper:
    """Random state, grad mode, default dtype and autocast. Torch itself is imported by scripts, not here."""

    def fresh(self, seed: int) -> Any:
        return Fresh(seed)

    def save(self) -> Any:
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return None
        return (
            torch.get_rng_state(),
            torch.is_grad_enabled(),
            torch.get_default_dtype(),
            torch.is_autocast_enabled(AUTOCAST_DEVICE),
            torch.get_autocast_dtype(AUTOCAST_DEVICE),
            _nesting(torch),
        )

    def restore(self, state: Any) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is None or state is None:
            return
        if isinstance(state, Fresh):
            torch.manual_seed(state.seed)
            state = (torch.get_rng_state(), True, torch.float32, False, torch.bfloat16, 0)
        rng, grad, dtype, autocast, autocast_dtype, nesting = state
        torch.clear_autocast_cache()
        torch.set_rng_state(rng)
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        torch.set_autocast_enabled(AUTOCAST_DEVICE, autocast)
        torch.set_autocast_dtype(AUTOCAST_DEVICE, autocast_dtype)
        for _ in range(_nesting(torch), nesting):
            torch.autocast_increment_nesting()
        for _ in range(nesting, _nesting(torch)):
            torch.autocast_decrement_nesting()


def _nesting(torch: Any) -> int:
    """How many autocast contexts are open; leaving the last one clears the cache of cast weights."""
    nesting = int(torch.autocast_increment_nesting()) - 1
    torch.autocast_decrement_nesting()
    return nesting
