"""The baseline: the same script under torch's own DistributedDataParallel, on Gloo."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import blake2b
from typing import Any
from weakref import ref

import torch.distributed as dist
from torch import Tensor, is_grad_enabled, nn, uint8
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from weft.core.errors import ConfigError

LOOPBACK = "127.0.0.1"
TIMEOUT = timedelta(minutes=10)
FP16, POWERSGD = "fp16", "powersgd"
"""DDP communication hooks of torch that compress gradients."""
POWERSGD_RANK = 4
POWERSGD_START = 2
"""The first step that PowerSGD compresses; its default of 1000 is for much longer trainings."""
ONE_BUCKET_MB = 1000
"""With several buckets, PowerSGD's reductions overtake each other on Gloo, and the process crashes."""

KEY = "weft/gradients"
"""The prefix of the keys under which workers put digests of gradients into the store."""

ADVICE = (
    "  It averages one backward after each call of the model: call model(...) before every backward, "
    "not model.encode(...), a submodule or a method from before weft.join; or leave --baseline out."
)
FIRST_COMPARISON = timedelta(seconds=20)
"""How long a worker waits for the others' first digests. Once a worker has compared, TIMEOUT holds: it is only late."""


def open_store(rank: int, num_workers: int, port: int = 0, host: str = LOOPBACK) -> Any:
    """The TCPStore of the process group: worker 0 serves it on a free port, to which the others connect."""
    return TCPStore(host, port, num_workers, is_master=rank == 0, timeout=TIMEOUT, wait_for_workers=False)


def meet(store: Any, rank: int, num_workers: int) -> None:
    """Make the process group of all workers."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=num_workers, timeout=TIMEOUT)


class Synchronised:
    """A model whose calls go through DistributedDataParallel whenever gradients are enabled.

    DistributedDataParallel averages the gradients of one backward after each call of its forward, and only when that
    backward has filled all parameters; all other gradients silently stay each worker's own. `check` finds those.
    """

    def __init__(
        self, model: nn.Module, number: int, store: Any, rank: int, num_workers: int, hook: str | None = None
    ) -> None:
        """`number` is the model's index among those that joined; `hook` is a communication hook's name."""
        self._key = f"{KEY}/{number}"
        self.ddp = DistributedDataParallel(model, bucket_cap_mb=ONE_BUCKET_MB if hook == POWERSGD else None)
        if hook == POWERSGD:
            state = PowerSGDState(None, matrix_approximation_rank=POWERSGD_RANK, start_powerSGD_iter=POWERSGD_START)
            self.ddp.register_comm_hook(state, powerSGD_hook)
        elif hook == FP16:
            self.ddp.register_comm_hook(dist.group.WORLD, fp16_compress_hook)
        self._store = store
        self._rank = rank
        self._num_workers = num_workers
        self._parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
        self._expected: set[str] = set()
        """Names of parameters that the backward of the last call has yet to fill before all are averaged."""
        self._filled: set[str] = set()
        """Names of parameters that it has filled."""
        self._local: set[str] = set()
        """Names of parameters whose gradients contain something that was not averaged."""
        self._is_around = False
        self._compared: str | None = None
        """The key of this worker's last digest in the store."""
        self._call_through(model)
        self._watch()

    def _call_through(self, model: nn.Module) -> None:
        forward: Callable[..., Any] = model.forward

        def through_ddp(*args: Any, **kwargs: Any) -> Any:
            if self._is_around or not is_grad_enabled():
                return forward(*args, **kwargs)
            with self.around():
                outputs = self.ddp(*args, **kwargs)
            if self.ddp.require_backward_grad_sync:
                self._expected, self._filled = set(self._parameters), set()
            return outputs

        model.forward = through_ddp

    @contextmanager
    def around(self) -> Iterator[None]:
        """A context in which calls of the model bypass DistributedDataParallel: it is running already, or only one
        worker calls the model, and would wait for the others in a collective for ever."""
        self._is_around, before = True, self._is_around
        try:
            yield
        finally:
            self._is_around = before

    def _watch(self) -> None:
        myself = ref(self)  # weak: the garbage collector does not see cycles through a tensor's hooks

        def watcher(name: str) -> Callable[[Tensor], None]:
            def fill(parameter: Tensor) -> None:
                synchronised = myself()
                if synchronised is not None:
                    synchronised._fill(name)

            return fill

        for name, parameter in self._parameters.items():
            parameter.register_post_accumulate_grad_hook(watcher(name))  # type: ignore[no-untyped-call]

    def _fill(self, name: str) -> None:
        """A backward has added to a parameter's gradient. When the last one is filled, DDP averages all as they are."""
        if name not in self._expected:
            self._local.add(name)
            return
        self._expected.remove(name)
        self._filled.add(name)
        if not self._expected:
            self._local -= self._filled
            self._filled = set()

    def check(self, step: int) -> None:
        """Raise ConfigError for a step on gradients that were not averaged, unless all are equal (a penalty's).

        Every worker of a synchronous script comes here with the same parameters; digests are compared in the store.
        """
        stepped = {name for name in self._local | self._filled if self._parameters[name].grad is not None}
        self._local = set()
        if not stepped:
            return
        names = [name for name in self._parameters if name in stepped]
        digest = blake2b(digest_size=16)
        for name in names:
            gradient = self._parameters[name].grad
            assert gradient is not None
            digest.update(gradient.detach().to_dense().cpu().contiguous().view(-1).view(uint8).numpy().data)
        mine = f"{self._key}/{step}/{self._rank}"
        self._store.set(mine, digest.hexdigest())
        told = f"those of {len(names)} of {len(self._parameters)} parameters, '{names[0]}' first"
        if len({self._digest_of(rank, step, told) for rank in range(self._num_workers)}) > 1:
            raise ConfigError(
                f"--baseline ddp: step {step} of worker {self._rank} was made on gradients that "
                f"DistributedDataParallel did not average, and that differ between workers: {told}.\n{ADVICE}"
            )
        if self._compared is not None:  # all workers have read it, since all have posted the next one
            self._store.delete_key(self._compared)
        self._compared = mine

    def _digest_of(self, rank: int, step: int, told: str) -> bytes:
        key = f"{self._key}/{step}/{rank}"
        try:
            self._store.wait([key], FIRST_COMPARISON if self._compared is None else TIMEOUT)
        except dist.DistStoreError:
            raise ConfigError(
                f"--baseline ddp: worker {rank} did not compare its gradients of step {step} with those of worker "
                f"{self._rank}, some of which DistributedDataParallel did not average: {told}.\n{ADVICE}"
            ) from None
        digest: bytes = self._store.get(key)
        return digest


def leave() -> None:
    """End the process group, when all workers do."""
    dist.destroy_process_group()
