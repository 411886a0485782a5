"""Models that are laid out differently are refused."""

import pytest

from weft.core.errors import ConfigError
from weft.engines.real.layout_check import check_layouts

LAYOUT = ["w (3,) float64"]


@pytest.mark.parametrize(
    ("layout", "because"),
    [
        (["w (4,) float64"], "worker 2 joined with 'w (4,) float64' where worker 0 has 'w (3,) float64'."),
        ([*LAYOUT, "b (1,) float64"], "worker 2 joined with 2 tensors, worker 0 with 1."),
    ],
)
def test_the_first_tensor_that_differs_is_named_or_how_many_there_are(layout: list[str], because: str) -> None:
    check_layouts(2, LAYOUT, list(LAYOUT))
    with pytest.raises(ConfigError) as refused:
        check_layouts(2, LAYOUT, layout)
    assert str(refused.value) == f"{because}\n  Build the same model on every worker."
