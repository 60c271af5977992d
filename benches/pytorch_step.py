"""Time of one training step of the `nano` preset's model in PyTorch on the CPU, for comparison with Headlight.

GPT-2 with 4 layers, 4 heads, 128 wide, context 64, batch 12, vocabulary 65, AdamW, clip 1, no dropout. Prints the
median of many steps in milliseconds. Needs only `torch`.
"""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, VOCABULARY = 4, 4, 128, 64, 12, 65


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = [part.view(BATCH, CONTEXT, HEADS, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(WIDTH, 2)]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(CONTEXT))
        return self.ln_f(self.blocks(x)) @ self.wte.weight.T


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
    times = []
    for _ in range(arguments.steps + 10):
        began = time.perf_counter()
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - began)
    times = sorted(times[10:])
    print(f"{1000 * times[len(times) // 2]:.1f} ms a step (median of {arguments.steps}, torch {torch.__version__})")


if __name__ == "__main__":
    main()
