"""A model that predicts as several do."""

from collections import OrderedDict, namedtuple
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.adapters.torch.ensemble_call import mean_of, predicting_together
from weft.core.errors import ConfigError

Pair = namedtuple("Pair", ["left", "right"])


class Line(nn.Module):
    """Predicts slope * x."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, depth: int = 0) -> Any:
        return self.slope * (self(x, depth - 1) if depth else x)


def put(model: Line, slope: float) -> None:
    with torch.no_grad():
        model.slope.fill_(slope)


def together(model: Line, *slopes: float) -> Any:
    return predicting_together(model, [partial(put, model, slope) for slope in slopes])


def test_every_call_is_the_mean_of_all_members_calls() -> None:
    model = Line()
    with together(model, 1.0, 2.0, 6.0):
        assert model(torch.tensor([1.0, 2.0])).tolist() == [3.0, 6.0]
        assert model(torch.tensor([10.0])).tolist() == [30.0]


def test_a_forward_that_calls_its_own_model_goes_on_as_the_same_member() -> None:
    model = Line()
    with together(model, 1.0, 3.0):
        assert model(torch.ones(1), depth=2).tolist() == [(1.0 + 27.0) / 2]


@pytest.mark.parametrize("had_its_own", [True, False])
def test_the_model_has_its_own_forward_again_even_after_an_error(had_its_own: bool) -> None:
    model = Line()
    if had_its_own:
        model.forward = lambda x: x * 100  # type: ignore[assignment, method-assign, misc]
    before = dict(vars(model))
    with pytest.raises(TypeError), together(model, 1.0, 2.0):
        model("no tensor", "no depth")
    assert vars(model) == before


def test_means_are_taken_in_tuples_lists_and_dictionaries() -> None:
    one, three = torch.ones(2), torch.full((2,), 3.0)
    assert mean_of([one, three]).tolist() == [2.0, 2.0]
    assert mean_of([(one, 1.0), (three, 2.0)])[1] == 1.5
    assert [value.tolist() for value in mean_of([[one], [three]])] == [[2.0, 2.0]]
    pair = mean_of([Pair(one, "text"), Pair(three, "text")])
    assert (type(pair), pair.left.tolist(), pair.right) == (Pair, [2.0, 2.0], "text")
    named = mean_of([OrderedDict(a=one, b=None), OrderedDict(a=three, b=None)])
    assert (type(named), named["a"].tolist(), named["b"]) == (OrderedDict, [2.0, 2.0], None)


def test_what_members_were_given_stays_as_it_was() -> None:
    outputs = [{"a": torch.ones(1)}, {"a": torch.zeros(1)}]
    mean_of(outputs)
    assert outputs[0]["a"].item() == 1.0


def test_whole_numbers_are_kept_where_all_agree_and_refused_where_they_differ() -> None:
    assert mean_of([torch.tensor([1, 2]), torch.tensor([1, 2])]).tolist() == [1, 2]
    with pytest.raises(ConfigError) as refused:
        mean_of([torch.tensor([1, 2]), torch.tensor([1, 3])])
    assert str(refused.value) == (
        "members of an ensemble predict tensors of torch.int64 that differ, which have no mean.\n"
        "  Let forward return floating numbers, and decide by them outside of it."
    )
