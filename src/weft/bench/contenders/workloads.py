"""What the training benchmarks train: model, optimizer, batches and step, the same for every contender."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor, nn

NUM_BATCHES = 8
VOCABULARY, CONTEXT, WIDTH = 96, 64, 256


@dataclass
class Workload:
    """A training loop that never ends; a contender may wrap `model` before its first step."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[tuple[Tensor, Tensor]]
    norm_max: float | None = None
    count: Callable[[int], None] = lambda num_samples: None
    """Told of every batch before it is used."""

    def steps(self) -> Callable[[], None]:
        """A function that makes the next step."""
        batches = cycle(self.batches)

        def step() -> None:
            inputs, targets = next(batches)
            self.count(len(inputs))
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(inputs), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            if self.norm_max is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.norm_max)
            self.optimizer.step()

        return step


def workload(name: str) -> Workload:
    """The workload of this name, with the same parameters in every process."""
    torch.manual_seed(0)
    return WORKLOADS[name]()


def cnn() -> Workload:
    """1.2 M parameters: the convolutional network of torch's own MNIST example, 32 images."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    return Workload(model, momentum(model), images(32))


def mlp(norm_max: float | None = None) -> Workload:
    """20 M parameters and 64 images: more bytes to move for each operation than the others."""
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)
    )
    return Workload(model, momentum(model), images(64), norm_max)


class CharacterTransformer(nn.Module):
    """3.2 M parameters: four layers over characters, each seeing only those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)

    def forward(self, text: Tensor) -> Tensor:
        """The scores of each next character, as (text, character, place)."""
        seen = self.layers(self.characters(text) + self.places, mask=self.mask, is_causal=True)
        scores: Tensor = self.head(seen).transpose(1, 2)
        return scores


def transformer() -> Workload:
    """8 texts of 64 characters, AdamW."""
    model = CharacterTransformer()
    texts = [torch.randint(VOCABULARY, (8, CONTEXT + 1)) for _ in range(NUM_BATCHES)]
    return Workload(model, torch.optim.AdamW(model.parameters(), lr=1e-3), [(t[:, :-1], t[:, 1:]) for t in texts])


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    """As most users train images."""
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def images(num: int) -> list[tuple[Tensor, Tensor]]:
    """Batches in the shape of MNIST."""
    return [(torch.rand(num, 1, 28, 28), torch.randint(10, (num,))) for _ in range(NUM_BATCHES)]


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "cnn": cnn,
    "mlp": mlp,
    "mlp-clip": lambda: mlp(norm_max=1.0),
    "transformer": transformer,
}
