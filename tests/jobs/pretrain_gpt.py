"""
Pretraining of a tiny GPT on packed blocks: every row is full, so the mean of the means is the mean.
Run it with torchrun, or alone. Configuration are the globals below; override with --key=value.
"""

import contextlib
import math
import os
import sys

import torch
import torch.nn as nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

# -----------------------------------------------------------------------------
seed = 0
steps = 6
batch_size = 24  # rows over all ranks and micro-steps
gradient_accumulation_steps = 4  # over all ranks
block_size = 24
vocab_size, n_embd, n_layer = 96, 32, 2
lr, warmup_iters = 3e-3, 2
grad_clip = 1.0
optim = "adamw"
dtype = "float32"  # or float16, with a GradScaler, or bfloat16
divide_loss = 1
eval_interval = 3
save = ""
words = " ".join(sys.argv[1:]).replace("=", " ").split()
for option, value in zip(words[::2], words[1::2], strict=True):
    key = option.lstrip("-").replace("-", "_")
    assert key in globals(), f"unknown setting {key}"
    globals()[key] = type(globals()[key])(value)
# -----------------------------------------------------------------------------
torch.set_num_threads(1)
ddp = int(os.environ.get("WORLD_SIZE", "1")) > 1
if ddp:
    init_process_group(backend="gloo")
    ddp_rank, ddp_world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
else:
    ddp_rank, ddp_world_size = 0, 1
master_process = ddp_rank == 0
assert gradient_accumulation_steps % ddp_world_size == 0
micro_total = gradient_accumulation_steps
gradient_accumulation_steps //= ddp_world_size
torch.manual_seed(seed)

data = torch.randint(0, vocab_size, (20_000,))
data[1::2] = (data[::2] * 3 + 1) % vocab_size


def get_batch(step, micro):
    g = torch.Generator().manual_seed(seed * 7919 + step)
    starts = torch.randint(0, len(data) - block_size - 1, (batch_size,), generator=g)
    n = batch_size // micro_total
    i = (ddp_rank * gradient_accumulation_steps + micro) * n
    x = torch.stack([data[s : s + block_size] for s in starts[i : i + n].tolist()])
    y = torch.stack([data[s + 1 : s + 1 + block_size] for s in starts[i : i + n].tolist()])
    return x, y


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.fc = nn.Linear(n_embd, 4 * n_embd)
        self.fc_proj = nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(C)
        att = att.masked_fill(torch.ones(T, T).tril() == 0, float("-inf")).softmax(-1)
        x = x + self.c_proj(att @ v)
        return x + self.fc_proj(F.gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Layer() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.05)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def estimate_loss(model, step):
    model.eval()
    with torch.no_grad():
        losses = torch.stack([model(*get_batch(1000 + step, 0))[1] for _ in range(2)])
    model.train()
    return losses.mean().item()


def run():
    model = GPT()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    nodecay = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": nodecay, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr) if optim == "adamw" else torch.optim.SGD(groups, lr=lr)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == "float16")
    half = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(dtype)
    ctx = torch.amp.autocast("cpu", dtype=half) if half else contextlib.nullcontext()
    raw_model = model
    if ddp:
        model = DDP(model)
    for it in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (it + 1) / warmup_iters)
        if it % eval_interval == 0:
            estimate_loss(model, it)
        for micro_step in range(gradient_accumulation_steps):
            if ddp:
                model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
            with ctx:
                logits, loss = model(*get_batch(it, micro_step))
                if divide_loss:
                    loss = loss / gradient_accumulation_steps
            scaler.scale(loss).backward()
        if grad_clip != 0.0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if master_process:
            print(f"iter {it}: loss {loss.item():.4f}")
    if master_process and save:
        torch.save(raw_model.state_dict(), save)


run()
if ddp:
    destroy_process_group()
