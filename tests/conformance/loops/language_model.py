"""A small language model's loop: random batches, accumulation, clipping, a learning rate by hand, two groups."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

import weft

BLOCK, VOCAB, WIDTH, HEADS = 16, 12, 16, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (m.view(b, t, HEADS, c // HEADS).transpose(1, 2) for m in self.c_attn(self.ln_1(x)).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.block, self.ln_f = Block(), nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        logits = self.lm_head(self.ln_f(self.block(x)))
        return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))

    def configure_optimizers(self, weight_decay, learning_rate):
        params = list(self.parameters())
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95))


def text():
    """Words of a small language, one after another at random."""
    words = torch.randint(0, VOCAB, (8, 5), generator=torch.Generator().manual_seed(0))
    return words[torch.randint(0, 8, (2000,), generator=torch.Generator().manual_seed(1))].flatten()


data = text()
train_data, val_data = data[: int(0.9 * len(data))], data[int(0.9 * len(data)) :]


def get_batch(split, batch_size):
    source = train_data if split == "train" else val_data
    ix = torch.randint(len(source) - BLOCK, (batch_size,))
    x = torch.stack([source[i : i + BLOCK] for i in ix])
    y = torch.stack([source[i + 1 : i + 1 + BLOCK] for i in ix])
    return x, y


@torch.no_grad()
def estimate_loss(model, eval_iters=4):
    model.eval()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        losses = torch.tensor([model(*get_batch("val", 32))[1].item() for _ in range(eval_iters)])
    model.train()
    return losses.mean().item()


def get_lr(it, args):
    if it < args.warmup_iters:
        return args.learning_rate * (it + 1) / (args.warmup_iters + 1)
    decay_ratio = (it - args.warmup_iters) / (args.max_iters - args.warmup_iters)
    return args.learning_rate * (0.1 + 0.45 * (1.0 + math.cos(math.pi * decay_ratio)))


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-iters", type=int, default=80)
    parser.add_argument("--warmup-iters", type=int, default=8)
    parser.add_argument("--accumulation-steps", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-2)
    parser.add_argument("--grad-clip", type=float, default=1.0)
    args = parser.parse_args(argv)
    torch.manual_seed(1337)
    model = GPT()
    optimizer = model.configure_optimizers(weight_decay=0.1, learning_rate=args.learning_rate)
    worker = weft.join(model, optimizer)
    torch.manual_seed(1337 + worker.rank)  # every worker draws batches of its own
    losses = [estimate_loss(model)]
    x, y = get_batch("train", args.batch_size)
    for iter_num in range(args.max_iters):
        for param_group in optimizer.param_groups:
            param_group["lr"] = get_lr(iter_num, args)
        for _micro_step in range(args.accumulation_steps):
            worker.count(len(x))
            _logits, loss = model(x, y)
            loss = loss / args.accumulation_steps
            x, y = get_batch("train", args.batch_size)
            loss.backward()
        if args.grad_clip != 0.0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    losses.append(estimate_loss(model))
    worker.report(loss=lambda: estimate_loss(model))
    return losses


if __name__ == "__main__":
    main()
