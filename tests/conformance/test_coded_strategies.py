"""Every registered codec with every registered strategy: it trains, or is refused; a new name is tested at once."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes.real import real
from support.scripts.training_scripts import TORCH, TORCH_JOIN, TORCH_TRAIN, simulated, write
from support.simulated.codings import CODINGS, FIT, NO_FRAMEWORK, SCRIPT, SHAPE
from support.simulated.recipes import RECIPES, recipe

from weft.config.cluster import load_cluster
from weft.config.compression import GATHER, SUMS, TWO_WAY, Compression, check_pair, codec, compressed, schemes
from weft.config.registry import CODECS, STRATEGIES
from weft.core.errors import ConfigError
from weft.core.names import Bucket, Part
from weft.core.recorder import replay
from weft.core.rules import SGD
from weft.core.strategy import Strategy
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.runner import simulate_dry
from weft.runtime.connections import SHM, TCP
from weft.store.coded import shape_of
from weft.testing.worlds import Ran, simulate_arrays

NUM_WORKERS, STEPS = 3, 16


def is_legal(strategy: str, coding: str) -> bool:
    try:
        check_pair(recipe(strategy), codec(CODINGS[coding]), strategy)
    except ConfigError:
        return False
    return True


PAIRS = [(strategy, coding) for strategy in STRATEGIES for coding in CODECS]
LEGAL = [pair for pair in PAIRS if is_legal(*pair)]
CASES = [
    (strategy, coding, scheme)
    for strategy, coding in LEGAL
    for scheme in (schemes(codec(CODINGS[coding])) if recipe(strategy).reduces else (None,))
    if coding in NO_FRAMEWORK
]
every_case = pytest.mark.parametrize(("strategy", "coding", "scheme"), CASES)


def coded(strategy: str, coding: str, scheme: str | None) -> Strategy:
    return compressed(recipe(strategy), Compression(codec(CODINGS[coding]), scheme), "halving_doubling")


def train(strategy: Strategy, num_workers: int = NUM_WORKERS, num_steps: int = STEPS) -> Ran:
    return simulate_arrays(
        strategy,
        num_workers,
        FIT.gradient,
        num_steps=num_steps,
        samples=[4.0 * (worker + 1) for worker in range(num_workers)],
        starts=[{"w": FIT.start}] * num_workers,
        rule=SGD(0.1),
        epoch_steps=8,
        loss=lambda worker, step, w: FIT.loss(w),
    )


@cache
def trained(strategy: str, coding: str, scheme: str | None) -> Ran:
    return train(coded(strategy, coding, scheme))


@every_case
def test_it_learns_and_keeps_replicas_equal_if_the_strategy_does(
    strategy: str, coding: str, scheme: str | None
) -> None:
    ran = trained(strategy, coding, scheme)
    losses = [FIT.loss(model[0]) for model in ran.members]
    assert max(losses) < 0.8 * FIT.loss(FIT.start)
    assert ran.facts.steps == [STEPS] * NUM_WORKERS
    if recipe(strategy).keeps_replicas_equal:
        assert all(np.array_equal(node[0], ran.params[0][0]) for node in ran.params)


@every_case
def test_the_same_seed_gives_the_same_trace_and_events_replay(strategy: str, coding: str, scheme: str | None) -> None:
    ran, again = (train(coded(strategy, coding, scheme), num_steps=4) for _ in range(2))
    assert again.recording.hexdigest() == ran.recording.hexdigest()
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(again.params, ran.params, strict=True))
    assert replay(ran.recording, coded(strategy, coding, scheme), ran.world, seed=0) == []


@pytest.mark.parametrize("strategy", sorted({strategy for strategy, _ in set(PAIRS) - set(LEGAL)}))
def test_what_does_not_go_together_is_refused_and_both_are_named(strategy: str) -> None:
    for coding in (coding for coding in CODECS if (strategy, coding) not in LEGAL):
        with pytest.raises(ConfigError) as refused:
            check_pair(recipe(strategy), codec(CODINGS[coding]), strategy)
        assert str(refused.value).startswith(f"'{coding}' cannot be used with '{strategy}', which ")
        assert "\n  Use " in str(refused.value)


@pytest.mark.parametrize("coding", [name for name in NO_FRAMEWORK if not CODECS[name].varies])
def test_what_is_sent_has_exactly_the_declared_size(coding: str) -> None:
    built, bucket, num_workers, steps = codec(CODINGS[coding]), Bucket(48, 8, tensors=((0, SHAPE),)), 4, 3
    for scheme in set(schemes(built)) & {GATHER, SUMS, TWO_WAY}:
        ran = train(coded("allreduce", coding, scheme), num_workers, steps)
        *first, last = [shape_of(bucket, None).size(stage) for stage in built.stages()]
        rounds = 2 * num_workers * sum(first)  # what is agreed on is always summed from partner to partner
        if scheme == GATHER:
            rounds += num_workers * (num_workers - 1) * last
        elif scheme == SUMS:
            rounds += 2 * num_workers * last
        else:
            parts = [shape_of(bucket, Part(i, num_workers)).size(built) for i in range(num_workers)]
            rounds += 2 * (num_workers - 1) * sum(parts)
        assert ran.facts.bytes_sent == steps * rounds, scheme


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("coded"), SCRIPT)


DRY = [pair for pair in LEGAL if pair[0] in ("allreduce", "ssp", "neighbours", "diloco") and pair[1] in NO_FRAMEWORK]


@pytest.mark.parametrize(("strategy", "coding"), [pair for pair in DRY if not CODECS[pair[1]].varies])
def test_without_tensors_the_same_bytes_are_counted(script: Path, strategy: str, coding: str) -> None:
    text = RECIPES[strategy]
    options: dict[str, Any] = {"compress": CODINGS[coding]}
    dry = simulate_dry(
        SimulatedJob(
            script=script, arguments=(), cluster=load_cluster("rack"), num_workers=NUM_WORKERS, strategy=text, **options
        )
    )
    wet = simulated(script, NUM_WORKERS, text, **options)
    assert dry.facts.bytes_sent == wet.facts.bytes_sent > 0
    if not recipe(strategy).scored:  # without numbers nobody knows who is best
        assert dry.trace == wet.trace


@pytest.mark.parametrize("transport", [SHM, TCP])
@pytest.mark.parametrize("coding", ["topk(0.25)", "onebit", "powersgd", "fp16"])
def test_real_workers_learn_what_simulated_ones_do_and_can_be_replayed(
    script: Path, coding: str, transport: str
) -> None:
    options: dict[str, Any] = {"compress": coding, "collective": "halving_doubling"}
    outcome = real(script, NUM_WORKERS, "allreduce", transport=transport, checks_replay=True, **options)
    expected = simulated(script, NUM_WORKERS, "allreduce", **options)
    assert outcome.replay == []
    losses = [report["loss"] for report in outcome.to_json()["reports"]]
    np.testing.assert_allclose(losses, [report["loss"] for report in expected.facts.reports], rtol=1e-9)  # type: ignore[arg-type]
    assert losses[-1] < 0.5 * losses[0]


OUT_OF_STEP = ("ssp", "asgd", "dc_asgd", "downpour")
"""Where who comes first decides what is learned: shorter messages come earlier."""


@pytest.mark.parametrize("strategy", [strategy for strategy, coding in LEGAL if coding == "factors"])
def test_factors_of_linear_layers_train_as_dense_gradients_do_with_fewer_bytes(tmp_path: Path, strategy: str) -> None:
    layers = "model = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3))\n"
    plain = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    path = write(tmp_path, TORCH, layers, plain, TORCH_JOIN, TORCH_TRAIN)
    dense, factored = (simulated(path, 2, RECIPES[strategy], compress=text) for text in (None, "factors"))
    assert factored.facts.bytes_sent < dense.facts.bytes_sent
    for one, other in zip(dense.arrays, factored.arrays, strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(other, one, atol=1e-2 if strategy in OUT_OF_STEP else 1e-5)
