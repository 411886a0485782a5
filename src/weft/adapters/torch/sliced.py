"""Divides the optimizer's work: each worker updates its stretch of the one copy of the parameters of its host.

Only for optimizers that work element by element: they can treat a stretch of a flat bucket as one parameter. The script
keeps its own optimizer object; its hyper-parameters are read before every step, and its state is put together when
`state_dict` is called.

| shared memory      | written by                          | read by                                                 |
|--------------------|-------------------------------------|---------------------------------------------------------|
| `params`, `state`  | each worker, its own stretch        | all, when all have committed (runtime/shared_params.py) |
| scalar rows, masks | the worker of a stretch, per tensor | `state_dict` on any worker, between steps               |
"""

from collections.abc import Container, Iterator, Sequence
from copy import copy
from dataclasses import replace
from types import MethodType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from weft.adapters.torch.bucket_layout import BucketLayout
from weft.adapters.torch.pieces import Segment, cut, pieces_of
from weft.core.errors import ConfigError
from weft.core.seat import ReplicaMemory

ELEMENT_BY_ELEMENT = tuple(
    getattr(torch.optim, name)
    for name in ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"]
)

SCALAR_KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
"""Types of per-tensor numbers (such as `step`); those of a checkpoint have the type of their parameter."""


def works_element_by_element(optimizer: Optimizer) -> bool:
    """Whether each element's update depends only on that element's own gradient and state."""
    return type(optimizer) in ELEMENT_BY_ELEMENT


class UpdateJournal(Protocol):
    """Keeps the old values of a piece while it is updated; pieces are numbered through all buckets."""

    def keep(self, piece: int, arrays: Sequence[Any]) -> None: ...

    def done(self, piece: int) -> None: ...


class SlicedUpdate:
    """Runs an optimizer of the same class as the user's on this worker's stretch of every bucket."""

    def __init__(self, optimizer: Optimizer, flats: Sequence[BucketLayout], memory: ReplicaMemory) -> None:
        assert memory.spans is not None
        self._optimizer = optimizer
        self._flats = flats
        self._memory = memory
        self._journal: UpdateJournal | None = None
        """Keeps the old values of each piece while it is updated; None where a lost worker ends the run."""
        self._before: list[list[Any]] = []
        """By bucket: the rows of numbers of tensors before the last step, for `of_lost`."""
        self._first = 0
        """The first piece that is updated here: those before it were updated by a worker that was lost."""
        self._params = [torch.from_numpy(array) for array in memory.master or memory.params]
        self._seen = [torch.from_numpy(array) for array in memory.seen]
        self._flags = [flat.flags() for flat in flats]
        self._state_names, self._scalars = _probe(optimizer)
        self._by_tensor: set[int] = set()
        """Buckets that are cut by tensor, because a tensor once had no gradient."""
        self._groups = {id(p): i for i, group in enumerate(optimizer.param_groups) for p in group["params"]}
        self._segments = self._cut_all()
        self._inner = self._build()
        self._take_state()
        self._watch_state()

    def _cut_all(self) -> list[list[Segment]]:
        """This worker's stretches of all buckets, in segments."""
        assert self._memory.spans is not None
        self._pieces = list(pieces_of(self._memory.spans, self._flats))
        return [list(self._cut(bucket, merge=True)) for bucket in range(len(self._flats))]

    def _cut(self, bucket: int, *, merge: bool) -> Iterator[Segment]:
        for piece in self._pieces[self._first :]:
            if piece.bucket == bucket:
                yield from cut(piece, self._flats[bucket], self._groups, merge=merge)

    def _build(self) -> Optimizer:
        for segment in self._all():
            segment.place(self._params[segment.bucket], self._seen[segment.bucket])
        groups = [
            {**_without_params(group), "params": [s.parameter for s in self._all() if s.group == i]}
            for i, group in enumerate(self._optimizer.param_groups)
        ]
        return _same_kind(self._optimizer, groups)

    def _all(self) -> list[Segment]:
        return [segment for segments in self._segments for segment in segments]

    def step(self, buckets: Container[int]) -> None:
        """Update this worker's stretch of `buckets`; in all other buckets no worker's gradient counted."""
        if len(self._optimizer.param_groups) != len(self._inner.param_groups):
            raise ConfigError(
                "the optimizer got a new group of parameters after its first step, which workers do not share.\n"
                "  Add all groups before weft.join."
            )
        self._skip_all_unused()
        for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer._optimizer_step_pre_hooks.values()):
            hook(self._optimizer, (), {})
        self._take_numbers(self._optimizer)
        self._update(buckets)
        for hook in (*self._optimizer._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
            hook(self._optimizer, (), {})
        for group, mine in zip(self._optimizer.param_groups, self._inner.param_groups, strict=True):
            group.update({name: value for name, value in _without_params(mine).items() if name not in group})

    def _update(self, buckets: Container[int]) -> None:
        """Run the inner optimizer on `buckets`: on all pieces at once, or one by one for a journal."""
        due: list[list[Segment]] = [[] for _ in self._pieces]
        for segment in self._all():
            if segment.bucket in buckets and segment.parameter.grad is not None:
                due[segment.piece].append(segment)
        whole = [group["params"] for group in self._inner.param_groups]
        try:
            if self._journal is None:
                self._step_on([segment for mine in due for segment in mine])
                return
            for piece in self._pieces:
                if mine := due[piece.number]:
                    self._journal.keep(piece.number, self.changing(piece.number))
                    self._step_on(mine)
                    self._journal.done(piece.number)
        finally:
            for group, params in zip(self._inner.param_groups, whole, strict=True):
                group["params"] = params

    def _step_on(self, segments: Sequence[Segment]) -> None:
        """Run the inner optimizer on these segments: it is not shown others, for it looks at all of its parameters."""
        for number, group in enumerate(self._inner.param_groups):
            group["params"] = [segment.parameter for segment in segments if segment.group == number]
        _bare_step(self._inner)
        for segment in segments:
            self._share_state(segment)

    def changing(self, piece: int) -> list[Any]:
        """What an update of a piece changes: its parameters, and the optimizer's numbers for each."""
        assert self._memory.state is not None
        _, bucket, start, stop = self._pieces[piece]
        rows = [self._memory.state(k, bucket) for k in range(len(self._state_names))]
        return [array[start:stop] for array in (self._params[bucket].numpy(), *rows)]

    def journaled(self, journal: "UpdateJournal") -> None:
        """From now on, keep old values in `journal`."""
        self._journal = journal

    def remember(self) -> None:
        """Keep what all workers have published of their tensors' state: before any of them has begun an update."""
        self._before = self._published()

    def of_lost(self, spans: Sequence[tuple[int, int]], journal: "UpdateJournal", first: int) -> "SlicedUpdate":
        """An update of a lost worker's stretch from piece `first` on, as it would have made it: with its old state, and
        with the hyper-parameters of this step. What other pieces' tensors have published stays as it is, so that yet
        another worker can do the same if this one dies here."""
        other = copy(self)
        other._memory = replace(self._memory, spans=spans)
        other._journal, other._by_tensor, other._first = journal, set(), first
        other._segments = other._cut_all()
        other._inner = other._build()
        other._gather_state(self._before)
        other._take_state()
        other._take_numbers(self._inner)
        return other

    def _published(self) -> list[list[Any]]:
        """Copies of the rows of numbers of tensors, by bucket."""
        sizes, rows = [len(flat.tensors) for flat in self._flats], range(len(self._scalars) + 1)
        return [[self._scalar_row(bucket, k)[:size].copy() for k in rows] for bucket, size in enumerate(sizes)]

    def finish(self, buckets: Container[int]) -> None:
        """Update what is left of a lost worker's stretch."""
        self._skip_all_unused()
        self._update(buckets)

    def respan(self, spans: Sequence[tuple[int, int]]) -> None:
        """Update another stretch from now on; its state is what all workers have published."""
        self._gather_state(self._published())
        self._memory = replace(self._memory, spans=spans)
        self._by_tensor.clear()
        self._segments = self._cut_all()
        self._inner = self._build()
        self._take_state()

    def _take_numbers(self, source: Optimizer) -> None:
        """Take over the hyper-parameters of another optimizer with the same groups."""
        for group, mine in zip(source.param_groups, self._inner.param_groups, strict=True):
            mine.update(_without_params(group))
        for name in ("grad_scale", "found_inf"):  # a gradient scaler leaves them for fused optimizers, during a step
            if hasattr(source, name):
                setattr(self._inner, name, getattr(source, name))
            elif hasattr(self._inner, name):
                delattr(self._inner, name)

    def _skip_all_unused(self) -> None:
        for bucket, flags in enumerate(self._flags):
            if self._segments[bucket] and (bucket in self._by_tensor or not self._memory.seen[bucket][flags].all()):
                self._skip_unused(bucket)

    def _skip_unused(self, bucket: int) -> None:
        """Skip tensors for which no worker had a gradient; their bucket is cut by tensor from now on."""
        self._cut_by_tensor(bucket)
        seen = self._memory.seen[bucket]
        for segment in self._segments[bucket]:
            used = bool(seen[self._flags[bucket][segment.first]])
            segment.parameter.grad = segment.gradient if used else None

    def _cut_by_tensor(self, bucket: int) -> None:
        """Give every tensor of a bucket a segment of its own, and keep the state it has."""
        if bucket in self._by_tensor:
            return
        self._by_tensor.add(bucket)
        wholes = self._segments[bucket]
        self._segments[bucket] = list(self._cut(bucket, merge=False))
        for whole in wholes:
            self._share_state(whole)
            params = self._inner.param_groups[whole.group]["params"]
            params[:] = [parameter for parameter in params if parameter is not whole.parameter]
        for part in self._segments[bucket]:
            part.place(self._params[bucket], self._seen[bucket])
            self._inner.param_groups[part.group]["params"].append(part.parameter)
            whole = next(s for s in wholes if s.start <= part.start < s.stop)
            self._set_state(part, self._inner.state.get(whole.parameter, {}))
        for whole in wholes:
            self._inner.state.pop(whole.parameter, None)

    def _set_state(self, segment: Segment, like: dict[str, Any]) -> None:
        """Give a segment state of these names: what the shared memory holds, and scalars of its own."""
        self._inner.state.pop(segment.parameter, None)
        state = {name: view for name, view in self._views(segment).items() if name in like}
        state.update({name: torch.as_tensor(like[name]).clone() for name in self._scalars if name in like})
        if state:
            self._inner.state[segment.parameter] = state
        segment.num_shared = len(state)

    def _views(self, segment: Segment) -> dict[str, Tensor]:
        """The shared memory of a segment's state."""
        assert self._memory.state is not None
        return {
            name: torch.from_numpy(self._memory.state(k, segment.bucket))[segment.start : segment.stop]
            for k, name in enumerate(self._state_names)
        }

    def _share_state(self, segment: Segment) -> None:
        """Move state that a first step has made to shared memory, and publish per-tensor numbers there."""
        state = self._inner.state.get(segment.parameter, {})
        tensors = slice(segment.first, segment.last + 1)
        if len(state) != segment.num_shared:
            segment.num_shared = len(state)
            for name, view in self._views(segment).items():
                if name in state:
                    state[name] = view.copy_(state[name])
            self._names_row(segment.bucket)[tensors] = self._mask(state)
        for k, name in enumerate(self._scalars):
            if name in state:
                self._scalar_row(segment.bucket, k)[tensors] = float(state[name])

    def _scalar_row(self, bucket: int, k: int) -> Any:
        """One number for each tensor of a bucket, in a state row of its own; float64 if it fits, for large counts."""
        assert self._memory.state is not None
        row = self._memory.state(len(self._state_names) + k, bucket)
        kind = np.float64 if row.nbytes >= 8 * len(self._flats[bucket].tensors) else np.float32
        return row.view(np.uint8)[: row.nbytes // kind().itemsize * kind().itemsize].view(kind)

    def _names_row(self, bucket: int) -> Any:
        """For each tensor of a bucket, the mask of its optimizer state; 0 before its first use."""
        return self._scalar_row(bucket, len(self._scalars))

    def _mask(self, state: dict[str, Any]) -> int:
        """A bit for each name in `state`, then two bits for the type of each per-tensor number."""
        names = [*self._state_names, *self._scalars]
        mask = sum(1 << k for k, name in enumerate(names) if name in state)
        for k, name in enumerate(self._scalars):
            if name in state:
                mask |= SCALAR_KINDS.index(torch.as_tensor(state[name]).dtype) << len(names) + 2 * k
        return mask

    def _watch_state(self) -> None:
        """Replace `state_dict` and `load_state_dict` of the user's optimizer, so that they handle the whole state."""
        state_dict, load = self._optimizer.state_dict, self._optimizer.load_state_dict

        def whole_state_dict(optimizer: Optimizer) -> dict[str, Any]:
            self._gather_state(self._published())
            try:
                return state_dict()
            finally:
                optimizer.state.clear()

        def load_everything(optimizer: Optimizer, state: dict[str, Any]) -> None:
            load(state)
            self._take_state()

        self._optimizer.state_dict = MethodType(whole_state_dict, self._optimizer)  # type: ignore[method-assign]
        self._optimizer.load_state_dict = MethodType(load_everything, self._optimizer)  # type: ignore[method-assign]

    def _gather_state(self, published: Sequence[Sequence[Any]]) -> None:
        """Set the state of the user's optimizer to views of the shared memory, with all workers' stretches; what is
        `published` are the rows of numbers of tensors, by bucket."""
        assert self._memory.state is not None
        for bucket, (flat, (*numbers, masks)) in enumerate(zip(self._flats, published, strict=True)):
            rows = [torch.from_numpy(self._memory.state(k, bucket)) for k in range(len(self._state_names))]
            views = [flat.views(row) for row in rows]
            for number, tensor in enumerate(flat.tensors):
                mask = int(masks[number])
                if not mask or id(tensor) not in self._groups:
                    continue
                state: dict[str, Any] = {n: v[number] for n, v in zip(self._state_names, views, strict=True)}
                for k, name in enumerate(self._scalars):
                    kind = mask >> len(self._state_names) + len(self._scalars) + 2 * k & 3
                    state[name] = torch.tensor(float(numbers[k][number]), dtype=SCALAR_KINDS[kind])
                self._optimizer.state[tensor] = {n: v for k, (n, v) in enumerate(state.items()) if mask >> k & 1}

    def _take_state(self) -> None:
        """Take over the state that the user's optimizer has, from a checkpoint or from training alone."""
        for bucket, flat in enumerate(self._flats):
            kept = [self._optimizer.state.get(tensor, {}) for tensor in flat.tensors]
            for segment in self._segments[bucket]:
                self._inner.state.pop(segment.parameter, None)
                segment.num_shared = 0
            if any(self._differ(kept[s.first : s.last + 1]) for s in self._segments[bucket]):
                self._cut_by_tensor(bucket)
            for segment in self._segments[bucket]:
                self._take(segment, kept)
        self._optimizer.state.clear()

    def _differ(self, kept: Sequence[dict[str, Any]]) -> bool:
        """Tensors that were not always used together cannot be updated as if they were one."""
        scalars = [{name: float(state[name]) for name in self._scalars if name in state} for state in kept]
        return any(a != scalars[0] or b.keys() != kept[0].keys() for a, b in zip(scalars, kept, strict=True))

    def _take(self, segment: Segment, kept: Sequence[dict[str, Any]]) -> None:
        assert self._memory.state is not None
        flat = self._flats[segment.bucket]
        for k, name in enumerate(self._state_names):
            row = torch.from_numpy(self._memory.state(k, segment.bucket))
            for number in range(segment.first, segment.last + 1):
                if name in kept[number]:
                    start, stop = flat.starts[number], flat.flags()[number]
                    low, high = max(start, segment.start), min(stop, segment.stop)
                    row[low:high] = kept[number][name].reshape(-1)[low - start : high - start]
        self._set_state(segment, kept[segment.first])
        self._names_row(segment.bucket)[segment.first : segment.last + 1] = self._mask(kept[segment.first])
        self._share_state(segment)


def _bare_step(optimizer: Optimizer) -> None:
    """The step without what torch wraps around it: hooks, which are for the user's optimizer and run once a step, and a
    profiler's record of every piece."""
    step: Any = type(optimizer).step
    getattr(step, "__wrapped__", step)(optimizer)


def _same_kind(optimizer: Optimizer, groups: list[dict[str, Any]]) -> Optimizer:
    make: Any = type(optimizer)
    made: Optimizer = make(groups)
    return made


def _without_params(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _probe(optimizer: Optimizer) -> tuple[list[str], list[str]]:
    """Names of the state entries of an optimizer of this class: those per element, and those per tensor."""
    kinds: dict[str, Tensor] = {}
    for group in optimizer.param_groups:
        parameter = nn.Parameter(torch.zeros(2, dtype=group["params"][0].dtype if group["params"] else None))
        parameter.grad = torch.zeros_like(parameter)
        trial = _same_kind(optimizer, [{**_without_params(group), "params": [parameter]}])
        trial.step()
        kinds.update({n: v for n, v in trial.state[parameter].items() if isinstance(v, Tensor)})
    names = sorted(name for name, value in kinds.items() if value.dim())
    return names, sorted(name for name, value in kinds.items() if not value.dim())
