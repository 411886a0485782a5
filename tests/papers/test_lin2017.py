"""Lin et al. 2017, "Deep Gradient Compression: reducing the communication bandwidth for distributed training"."""

import numpy as np
import pytest
from support.oracles.compressed import Vector, noisy_bowl

from weft.codecs import DGC, Form, Turn


def train(codec: DGC | None, num_steps: int, lr: float = 0.004, momentum: float = 0.9, num_workers: int = 2) -> Vector:
    """With momentum: the optimizer's if there is no codec, else the codec's; and how far from the target it ends."""
    gradient, target = noisy_bowl()
    params, form = np.zeros(64), Form(64, 8)
    velocity, residuals, velocities = np.zeros(64), np.zeros((num_workers, 64)), np.zeros((num_workers, 64))
    for step in range(num_steps):
        update = np.zeros(64)
        for worker in range(num_workers):
            local = gradient(params, worker, step)
            if codec is None:
                update += local / num_workers
            else:
                payload = codec.encode(local, residuals[worker], form, Turn(step), velocities[worker]).payload
                codec.add(payload, update, 1 / num_workers, form)
        velocity = momentum * velocity + update if codec is None else update
        params = params - lr * velocity
    return params - target


def test_momentum_correction_gathers_the_velocity_that_dense_momentum_would_have() -> None:
    """Momentum correction: until something is sent, what has gathered is the sum of dense velocities."""
    codec, form = DGC(0.001, momentum=0.9, warmup_steps=0), Form(1000, 8)
    residual, velocity, dense, gathered = np.zeros((4, 1000))
    rng, is_sent = np.random.default_rng(0), np.zeros(1000, bool)
    for step in range(10):
        gradient, said = rng.standard_normal(1000), np.zeros(1000)
        codec.decode(codec.encode(gradient, residual, form, Turn(step), velocity).payload, said, form)
        is_sent |= said != 0
        dense = 0.9 * dense + gradient
        gathered += dense
    np.testing.assert_allclose(residual[~is_sent], gathered[~is_sent], rtol=1e-10)
    np.testing.assert_allclose(velocity[~is_sent], dense[~is_sent], rtol=1e-10)


def test_momentum_factor_masking_clears_velocity_and_gradient_where_it_is_sent() -> None:
    """So that stale momentum does not carry weights in a wrong direction."""
    values, residual, velocity, said = np.arange(1.0, 101.0), np.zeros(100), np.zeros(100), np.zeros(100)
    codec = DGC(0.05, momentum=0.9, warmup_steps=0)
    codec.decode(codec.encode(values, residual, Form(100, 8), Turn(), velocity).payload, said, Form(100, 8))
    assert np.flatnonzero(said).tolist() == [95, 96, 97, 98, 99]
    assert np.flatnonzero(residual == 0).tolist() == np.flatnonzero(velocity == 0).tolist() == [95, 96, 97, 98, 99]


def test_a_gradient_is_clipped_before_it_is_gathered() -> None:
    """Local gradient clipping: by its norm, before it is added to what gathered."""
    residual = np.full(4, 10.0)
    DGC(0.25, clip=0.5).encode(np.array([3.0, 0.0, 4.0, 0.0]), residual, Form(4, 8), Turn())
    np.testing.assert_allclose(residual, [10.3, 10.0, 0.0, 10.0], rtol=1e-12)


def test_sparsity_rises_exponentially_in_the_warm_up() -> None:
    """Warm-up: 75 %, 93.75 %, 98.4375 %, 99.6 %, 99.9 %."""
    codec = DGC(0.001, warmup_steps=5)
    assert [1 - codec.fraction_at(clock) for clock in range(5)] == pytest.approx([0.75, 0.9375, 0.984375, 0.996, 0.999])


@pytest.mark.slow
def test_one_in_64_ends_as_near_as_dense() -> None:
    """No loss of accuracy. One of 64 numbers is sent at last: 98.4 % are not."""
    dense = np.linalg.norm(train(None, 2000))
    assert np.linalg.norm(train(DGC(0.01, momentum=0.9, warmup_steps=100), 2000)) < 1.3 * dense
