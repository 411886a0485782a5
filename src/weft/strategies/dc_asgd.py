"""Asynchronous SGD with delay compensation: old gradients are corrected before they are applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.strategy import Entry
from weft.strategies.asgd import AsyncSGD
from weft.strategies.parts.late_gradients import COMPENSATE


@dataclass(frozen=True)
class DelayCompensated(AsyncSGD):
    """DC-ASGD (Zheng et al., arXiv 2016, ICML 2017): `asgd` that corrects old gradients to the first order.

    The server applies g + λ g⊙g⊙(w_now - w_then): w_then is what it last gave to that worker, of which it keeps a
    copy for each worker; g⊙g stands in for the second derivative; λ is `compensation`, and 0 is plain `asgd`.
    A newcomer gets the parameters from the servers, which keep them as its w_then.
    """

    entry = Entry(
        "dc_asgd",
        "delay compensation (Zheng et al. 2016)",
        "asynchronous, and old gradients are corrected for what happened since",
    )

    late: str = COMPENSATE

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"servers": rng.randint(1, 2)}
