"""The optimizer's work shared out: bit for bit what the plain optimizer does."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from weft.adapters.torch import pieces
from weft.adapters.torch.bucket_layout import BucketLayout
from weft.adapters.torch.sliced import ELEMENT_BY_ELEMENT, SlicedUpdate, works_element_by_element
from weft.core.seat import ReplicaMemory

NUM_WORKERS = 3
SHAPES = [(40, 9), (9,), (), (7, 33), (33,), (5,)]
BUCKETS = [(0, 1, 2), (3, 4), (5,)]
"""The last one is too small for more than one worker."""
GROUPS = [(0, 3, 5), (1, 2)]
"""Tensor 4 is trained by nobody's optimizer. Both groups have tensors in the first bucket."""
DOUBLES = (5,)
Make = Callable[[list[dict[str, Any]]], Optimizer]

VARIANTS: list[tuple[type[Optimizer], dict[str, Any]]] = [
    *((kind, {}) for kind in ELEMENT_BY_ELEMENT),
    (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True}),
    (torch.optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    (torch.optim.AdamW, {"foreach": True}),
    (torch.optim.RMSprop, {"centered": True, "momentum": 0.5}),
    (torch.optim.Adagrad, {"initial_accumulator_value": 0.5, "lr_decay": 0.1}),
    (torch.optim.NAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    (torch.optim.ASGD, {"t0": 3.0, "lambd": 0.1}),
]
EVERY_OPTIMIZER = pytest.mark.parametrize(
    ("kind", "options"), VARIANTS, ids=[" ".join([kind.__name__, *options]) for kind, options in VARIANTS]
)
STATEFUL = [(torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3}), (torch.optim.Rprop, {})]
USED_IN_TURN = [range(6), (0, 1, 3, 4), range(6), (1, 2, 3), (), (0, 1, 4), range(6)]
"""Which tensors have a gradient in which step. Tensor 5 of a bucket of its own is not always used either."""


@pytest.fixture(autouse=True)
def several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every stretch, so that tensors are cut in the middle."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 200)


def adopt(flat: BucketLayout, memory: torch.Tensor) -> None:
    """Let the tensors live in this memory, with the values that they have."""
    flat.write(memory)
    flat.move(memory)


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(s, dtype=torch.float64 if i in DOUBLES else None)) for i, s in enumerate(SHAPES)]


def optimizer_of(params: list[nn.Parameter], kind: Any, **options: Any) -> Optimizer:
    """Two groups with rates of their own; each parameter is in one of them, but for one that is in none."""
    first, second = ([params[i] for i in group] for group in GROUPS)
    return kind([{"params": first, "lr": 0.02}, {"params": second, "lr": 0.005}], **options)


def gradients(step: int, used: Sequence[int]) -> list[Tensor | None]:
    generator = torch.Generator().manual_seed(step)
    drawn = [torch.randn(shape, generator=generator) for shape in SHAPES]
    return [(grad.double() if i in DOUBLES else grad) if i in used and i != 4 else None for i, grad in enumerate(drawn)]


class Plain:
    """One worker, torch's own optimizer."""

    def __init__(self, kind: Any, **options: Any) -> None:
        self.params = parameters()
        self.optimizer = optimizer_of(self.params, kind, **options)

    def step(self, number: int, used: Sequence[int]) -> None:
        for parameter, grad in zip(self.params, gradients(number, used), strict=True):
            parameter.grad = grad
        self.optimizer.step()


class Team:
    """Workers that share one copy of the parameters, in one process and one after another."""

    def __init__(self, kind: Any, prepare: Callable[[Plain], None] = lambda plain: None, **options: Any) -> None:
        self.members = [Plain(kind, **options) for _ in range(NUM_WORKERS)]
        for member in self.members:
            prepare(member)
        flats = [[BucketLayout([member.params[i] for i in bucket]) for bucket in BUCKETS] for member in self.members]
        self.params = [np.zeros(flat.num_elements, f"f{flat.itemsize}") for flat in flats[0]]
        self.seen = [np.zeros_like(array) for array in self.params]
        self.state: dict[tuple[int, int], Any] = {}
        for flat_of_member in flats:
            for flat, array in zip(flat_of_member, self.params, strict=True):
                adopt(flat, torch.from_numpy(array))
        self.flats = flats[0]
        self.updates = [
            SlicedUpdate(member.optimizer, mine, self.memory(rank))
            for rank, (member, mine) in enumerate(zip(self.members, flats, strict=True))
        ]

    def memory(self, rank: int) -> ReplicaMemory:
        cuts = [[len(array) * w // NUM_WORKERS // 32 * 32 for w in range(NUM_WORKERS)] for array in self.params]
        ends = [[*cut[1:], len(array)] for cut, array in zip(cuts, self.params, strict=True)]
        spans = [(cut[rank], end[rank]) for cut, end in zip(cuts, ends, strict=True)]
        return ReplicaMemory(self.params, self.seen, self.seen, spans, self.row)

    def row(self, k: int, bucket: int) -> Any:
        return self.state.setdefault((k, bucket), np.zeros_like(self.params[bucket]))

    @property
    def optimizers(self) -> list[Optimizer]:
        return [member.optimizer for member in self.members]

    def step(self, number: int, used: Sequence[int]) -> None:
        drawn = gradients(number, used)
        for bucket, flat, seen in zip(BUCKETS, self.flats, self.seen, strict=True):
            for i, view, flag in zip(bucket, flat.views(torch.from_numpy(seen)), flat.flags(), strict=True):
                grad = drawn[i]
                view.copy_(torch.zeros_like(view) if grad is None else grad)
                seen[flag] = grad is not None
        for update in self.updates:
            update.step(range(len(update._flats)))


def check_equal(team: Team, plain: Plain) -> None:
    """The parameters, and the state that every worker's optimizer tells, are the plain one's bit for bit."""
    for member in team.members:
        for i, (mine, theirs) in enumerate(zip(member.params, plain.params, strict=True)):
            assert torch.equal(mine, theirs), f"parameter {i}"
    expected = plain.optimizer.state_dict()
    for optimizer in team.optimizers:
        got = optimizer.state_dict()
        assert got["param_groups"] == expected["param_groups"]
        assert got["state"].keys() == expected["state"].keys()
        for i, state in expected["state"].items():
            assert got["state"][i].keys() == state.keys()
            for name, value in state.items():
                mine = got["state"][i][name]
                assert (mine.dtype, mine.shape) == (value.dtype, value.shape)
                assert torch.equal(mine, value), f"{name} of parameter {i}"


def train(team: Team, plain: Plain, steps: Sequence[int], used: Sequence[Sequence[int]]) -> None:
    for step in steps:
        for optimizer in (plain.optimizer, *team.optimizers):
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
        which = used[step % len(used)]
        plain.step(step, which)
        team.step(step, which)


@EVERY_OPTIMIZER
def test_workers_that_share_the_update_do_what_the_plain_optimizer_does(kind: Any, options: dict[str, Any]) -> None:
    team, plain = Team(kind, **options), Plain(kind, **options)
    check_equal(team, plain)
    for step in range(6):
        train(team, plain, [step], [range(6)])
        check_equal(team, plain)


@EVERY_OPTIMIZER
def test_what_nobody_used_is_skipped_as_the_plain_optimizer_does(kind: Any, options: dict[str, Any]) -> None:
    team, plain = Team(kind, **options), Plain(kind, **options)
    for step in range(2 * len(USED_IN_TURN)):
        train(team, plain, [step], USED_IN_TURN)
        check_equal(team, plain)


@EVERY_OPTIMIZER
def test_a_tensor_that_is_used_late_has_no_state_before(kind: Any, options: dict[str, Any]) -> None:
    team, plain = Team(kind, **options), Plain(kind, **options)
    for step in range(4):
        train(team, plain, [step], [(0, 1), (0, 1), (0, 1, 2), range(6)])
        check_equal(team, plain)


@EVERY_OPTIMIZER
def test_a_state_that_is_loaded_on_the_way_counts(kind: Any, options: dict[str, Any]) -> None:
    other = Plain(kind, **options)
    for step in range(4):
        other.step(100 + step, USED_IN_TURN[step])
    loaded = deepcopy(other.optimizer.state_dict())
    team, plain = Team(kind, **options), Plain(kind, **options)
    train(team, plain, range(2), [range(6)])
    for optimizer in (plain.optimizer, *team.optimizers):
        optimizer.load_state_dict(loaded)
    check_equal(team, plain)
    train(team, plain, range(2, 6), [range(6)])
    check_equal(team, plain)


@pytest.mark.parametrize(("kind", "options"), STATEFUL)
def test_an_empty_state_that_is_loaded_forgets_what_was(kind: Any, options: dict[str, Any]) -> None:
    empty = Plain(kind, **options).optimizer.state_dict()
    team, plain = Team(kind, **options), Plain(kind, **options)
    train(team, plain, range(3), [range(6)])
    for optimizer in (plain.optimizer, *team.optimizers):
        optimizer.load_state_dict(empty)
    check_equal(team, plain)
    train(team, plain, range(3, 6), [range(6)])
    check_equal(team, plain)


@EVERY_OPTIMIZER
@pytest.mark.parametrize("used", [[range(6)], USED_IN_TURN], ids=["all used", "some unused"])
def test_state_from_before_joining_is_taken_over(kind: Any, options: dict[str, Any], used: Any) -> None:
    def alone(plain: Plain) -> None:
        for step in range(3):
            plain.step(100 + step, used[step % len(used)])

    team, plain = Team(kind, alone, **options), Plain(kind, **options)
    alone(plain)
    check_equal(team, plain)
    train(team, plain, range(4), [range(6)])
    check_equal(team, plain)


@pytest.mark.parametrize(("kind", "options"), STATEFUL)
def test_a_checkpoint_of_a_team_continues_with_a_plain_optimizer_and_the_other_way_round(
    kind: Any, options: dict[str, Any]
) -> None:
    team, plain = Team(kind, **options), Plain(kind, **options)
    train(team, plain, range(3), USED_IN_TURN)
    heir = Plain(kind, **options)
    heir.optimizer.load_state_dict(deepcopy(team.optimizers[1].state_dict()))
    with torch.no_grad():
        for mine, theirs in zip(heir.params, plain.params, strict=True):
            mine.copy_(theirs)
    train(team, heir, range(3, 6), [range(6)])
    check_equal(team, heir)


def test_groups_may_keep_different_things() -> None:
    team, plain = Team(torch.optim.SGD), Plain(torch.optim.SGD)
    for optimizer in (plain.optimizer, *team.optimizers):
        optimizer.param_groups[1]["nesterov"] = False
    other = Team(torch.optim.Adam, lambda each: each.optimizer.param_groups[1].update(amsgrad=True))
    expected = Plain(torch.optim.Adam)
    expected.optimizer.param_groups[1]["amsgrad"] = True
    train(team, plain, range(3), [range(6)])
    train(other, expected, range(3), [range(6)])
    check_equal(team, plain)
    check_equal(other, expected)


def test_steps_of_half_precision_are_counted_beyond_what_half_precision_counts() -> None:
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float16))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.state[parameter]["step"].fill_(4097.0)
    flat = BucketLayout([parameter])
    params, seen = (np.zeros(flat.num_elements, np.float16) for _ in range(2))
    adopt(flat, torch.from_numpy(params))
    rows = [np.zeros_like(params) for _ in range(8)]
    memory = ReplicaMemory([params], [seen], [seen], [(0, len(params))], lambda k, bucket: rows[k])
    SlicedUpdate(optimizer, [flat], memory)
    assert float(optimizer.state_dict()["state"][0]["step"]) == 4097.0


def test_hooks_of_the_optimizer_run_around_the_step_and_may_change_its_rate() -> None:
    told: list[tuple[str, bool, float]] = []

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        optimizer.param_groups[0]["lr"] = 0.5
        told.append(("before", optimizer is mine, float(watched[0, 0].detach())))

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        told.append(("after", optimizer is mine, float(watched[0, 0].detach())))

    team, plain = Team(torch.optim.SGD), Plain(torch.optim.SGD)
    mine, watched = team.optimizers[0], team.members[0].params[0]
    mine.register_step_pre_hook(before)
    mine.register_step_post_hook(after)
    start = float(watched[0, 0].detach())
    team.step(0, range(6))
    plain.optimizer.param_groups[0]["lr"] = 0.5
    plain.step(0, range(6))
    assert told == [("before", True, start), ("after", True, float(plain.params[0][0, 0].detach()))]


def test_hooks_of_all_optimizers_are_told_of_the_user_s_optimizer_once_a_step() -> None:
    told: list[Optimizer] = []
    handles = [
        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: told.append(optimizer)),
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: told.append(optimizer)),
    ]
    team = Team(torch.optim.SGD)
    told.clear()
    team.step(0, range(6))
    for handle in handles:
        handle.remove()
    assert told == [optimizer for optimizer in team.optimizers for _ in handles]


def test_what_a_gradient_scaler_left_for_one_step_does_not_count_in_the_next() -> None:
    team, plain = Team(torch.optim.SGD, fused=True), Plain(torch.optim.SGD, fused=True)
    for optimizer in (*team.optimizers, plain.optimizer):
        vars(optimizer).update(grad_scale=None, found_inf=torch.ones(()))
    train(team, plain, [0], [range(6)])
    for optimizer in (*team.optimizers, plain.optimizer):
        del optimizer.grad_scale, optimizer.found_inf  # type: ignore[attr-defined]
    train(team, plain, [1], [range(6)])
    for mine, theirs, before in zip(team.members[0].params, plain.params, parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert torch.equal(mine, before) == (mine is team.members[0].params[4])


def test_optimizers_that_look_at_whole_tensors_are_not_shared_out() -> None:
    class Own(torch.optim.SGD):
        """Nobody knows what it does."""

    weight = nn.Parameter(torch.zeros(2, 2))
    whole = [torch.optim.LBFGS, torch.optim.Adafactor, torch.optim.Muon, Own]
    assert [works_element_by_element(kind([weight])) for kind in whole] == [False] * 4
    assert all(works_element_by_element(kind([weight])) for kind in ELEMENT_BY_ELEMENT)
