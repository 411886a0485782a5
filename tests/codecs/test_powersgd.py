"""PowerSGD."""

import numpy as np
import pytest

from weft.codecs import Form, PowerSGD, Turn
from weft.codecs.powersgd import begun, chosen, orthogonal
from weft.core.errors import ConfigError

FORM = Form(24 * 20 + 7, 8, ((0, (24, 4, 5)), (480, (5,))))


def low_rank(rank: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((24, rank)) @ rng.standard_normal((rank, 20))
    return np.concatenate([matrix.reshape(-1), rng.standard_normal(7)])


def test_workers_together_get_the_mean_of_low_rank_gradients() -> None:
    codec, workers = PowerSGD(4), [low_rank(2, seed) for seed in (1, 2)]
    left, right = codec.left, codec.right
    lefts = [left.encode(values, None, FORM, Turn(0, worker, 5)).payload for worker, values in enumerate(workers)]
    left.merge(lefts[0], 0.5, lefts[1], 0.5, FORM)
    rights = [right.encode(values, None, FORM, Turn(), lefts[0]).payload for values in workers]
    right.merge(rights[0], 0.5, rights[1], 0.5, FORM)
    said = np.empty(487)
    right.check(rights[0], FORM)
    right.decode(rights[0], said, FORM, lefts[0])
    np.testing.assert_allclose(said, (workers[0] + workers[1]) / 2, atol=1e-9)


def test_a_warm_start_finds_the_largest_directions() -> None:
    codec, values = PowerSGD(1), np.concatenate([np.random.default_rng(0).standard_normal(480), np.zeros(7)])
    best = np.linalg.svd(values[:480].reshape(24, 20), compute_uv=False)
    payload, said = None, np.empty(487)
    errors = []
    for clock in range(60):
        payload = codec.encode(values, None, FORM, Turn(clock), payload).payload
        codec.decode(payload, said, FORM)
        errors.append(np.linalg.norm(said - values))
    assert errors[-1] < errors[0]
    assert errors[-1] == pytest.approx(np.sqrt((best[1:] ** 2).sum()), rel=1e-2)


def test_what_is_no_matrix_or_smaller_than_its_factors_travels_as_it_is() -> None:
    form = Form(40, 4, ((0, (3, 4)), (12, (10,)), (22, (4, 4))))
    assert chosen(form, 2) == ()
    assert PowerSGD(2).left.size(form) == 0
    assert PowerSGD(2).size(form) == 160
    assert PowerSGD(2).size(FORM) == 8 * (2 * (24 + 20) + 7)


def test_a_rank_that_no_matrix_has_is_refused_with_the_range() -> None:
    with pytest.raises(ConfigError, match=r"rank of 'powersgd' is 21, but no matrix here .* it is from 1 to 20"):
        PowerSGD(21).check_form(FORM)
    with pytest.raises(ConfigError, match="rank of 'powersgd' is 0, but it is a whole number from 1 to 4096"):
        PowerSGD(0)
    PowerSGD(20).check_form(FORM)
    PowerSGD(20).check_form(Form(5))


def test_right_factors_need_the_left_ones() -> None:
    with pytest.raises(ConfigError, match="right factors need the left ones"):
        PowerSGD().right.encode(low_rank(1), None, FORM, Turn())
    PowerSGD().left.prepare(4)


def test_columns_become_orthogonal_and_those_that_depend_become_zero() -> None:
    columns = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
    columns[:, 1] = 2 * columns[:, 0]
    made = orthogonal(columns)
    np.testing.assert_allclose(made.T @ made, np.diag([1, 0, 1]), atol=1e-6)


def test_columns_that_said_nothing_are_drawn_anew() -> None:
    begin = begun(np.array([[0.0, 4.0], [0.0, -8.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert begin.tolist() == [[1, 0.5], [3, -1]]


def test_left_factors_put_all_values_into_the_residual_and_right_ones_leave_them_there() -> None:
    values, residual = np.random.default_rng(0).standard_normal((2, 48))
    values[7] = np.nan
    form, codec, before = Form(48, 8, ((0, (8, 6)),)), PowerSGD(2), residual.copy()
    left = codec.left.encode(values, residual, form, Turn())
    total = before + np.where(np.isnan(values), 0.0, values)
    np.testing.assert_array_equal(residual, total)
    right = codec.right.encode(values, residual, form, Turn(), left.payload)
    np.testing.assert_array_equal(residual, total)
    assert (left.num_not_finite, right.num_not_finite) == (1, 0), "counted once"
    alone = codec.right.encode(total, None, form, Turn(), left.payload)
    np.testing.assert_array_equal(right.payload, alone.payload)
