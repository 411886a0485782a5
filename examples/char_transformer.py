"""A transformer that learns to write, character by character, in torch.

python examples/char_transformer.py
weft simulate examples/char_transformer.py -n 4 --strategy 'ssp(staleness=3)' --cluster cloud
python examples/char_transformer.py --layers 2 --width 64 --lr 3e-3    # small, for a quick look

It reads --data FILE or data/tinyshakespeare.txt (github.com/karpathy/char-rnn), else Python's license, a short text.
"""

import argparse
import os
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

import weft

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, help="a text file")
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--context", type=int, default=64, help="how many characters it sees")
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--windows", type=int, default=512, help="pieces of text in an epoch, over all workers")
parser.add_argument("--batch-size", type=int, default=8, help="pieces of one worker in one step")
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()


def load():
    """A text as numbers, one for each character."""
    places = [Path("data/tinyshakespeare.txt"), Path(os.__file__).with_name("LICENSE.txt")]
    found = [args.data] if args.data else [place for place in places if place.is_file()]
    text = found[0].read_text(encoding="utf-8") if found else "".join(topics.values())  # Python's own manual
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return torch.tensor([numbers[character] for character in text])


class Transformer(nn.Module):
    def __init__(self, num_characters, width):
        super().__init__()
        self.characters = nn.Embedding(num_characters, width)
        self.places = nn.Parameter(torch.randn(args.context, width))
        layer = {"nhead": 4, "dim_feedforward": 4 * width, "dropout": 0.0, "batch_first": True, "norm_first": True}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, **layer) for _ in range(args.layers))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, num_characters))

    def forward(self, windows):
        """The loss: how badly each character is guessed from those before it."""
        x = self.characters(windows[:, :-1]) + self.places
        for layer in self.layers:
            x = layer(x, nn.Transformer.generate_square_subsequent_mask(args.context), is_causal=True)
        return nn.functional.cross_entropy(self.out(x).flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def evaluate():
    return model(unseen[:128]).item()


torch.manual_seed(0)
text = weft.once(load)
seen = text[: len(text) * 9 // 10].unfold(0, args.context + 1, 1)
unseen = text[len(text) * 9 // 10 :].unfold(0, args.context + 1, args.context)
sampler = RandomSampler(seen, replacement=True, num_samples=args.windows)
loader = DataLoader(seen, batch_size=args.batch_size, sampler=sampler)
model = Transformer(int(text.max()) + 1, args.width)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
worker = weft.join(model, optimizer)
for epoch in worker.epochs(args.epochs):
    for windows in worker.share(loader):
        optimizer.zero_grad()
        model(windows).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    worker.report(validation_loss=evaluate)
