"""Language model with DistributedDataParallel and gradient accumulation; a loss per token of the whole global batch."""

import argparse
import contextlib

import torch
import torch.distributed as dist
from options import arguments
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP


def summing_hook(group, bucket):
    """All-reduce a bucket, then divide: what DDP does itself, written out."""
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
    return work.then(lambda future: future.value()[0].div_(dist.get_world_size(group)))


class LateBias(nn.Module):
    """A model with a bias on its logits that was forgotten when it was wrapped."""

    def __init__(self, wrapped):
        super().__init__()
        self.wrapped = wrapped
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, tokens):
        return self.wrapped(tokens) + self.bias


class BodyInDDP(nn.Module):
    """Body and head, of which the body alone is wrapped."""

    def __init__(self, model):
        super().__init__()
        self.body, self.head = DDP(model.body), model.head

    def forward(self, tokens):
        return self.head(self.body(tokens))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(args.seed)
        model = TinyLM(tied=args.tied, checkpointing=args.checkpointing, unused=args.unused)
        self.plain = model.to(getattr(torch, args.dtype))
        if args.frozen:
            self.plain.body.position.requires_grad_(False)
        self.ddp = self.wrap()
        self.model = self.ddp
        if args.fault == "late-param":
            self.model = LateBias(self.ddp)
        elif args.fault == "head-outside":
            self.model = BodyInDDP(self.plain)
        elif args.fault == "bypass":
            self.model = self.ddp.module
        elif args.fault == "no-ddp":
            self.model = self.plain
        if args.compile:
            self.model = torch.compile(self.model, backend="aot_eager")
        self.params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizers = self.make_optimizers()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=args.scaler)
        self.waiting = None

    def wrap(self):
        args = self.args
        ddp = DDP(
            self.plain,
            static_graph=args.static_graph,
            gradient_as_bucket_view=args.bucket_view,
            find_unused_parameters=args.unused,
        )
        if args.hook == "fp16":
            ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif args.hook == "custom":
            ddp.register_comm_hook(None, summing_hook)
        return ddp

    def make_optimizers(self):
        lr = self.args.lr
        if self.args.opt == "adamw":
            return [torch.optim.AdamW(self.params, lr=lr / 100)]
        if self.args.opt == "two":
            half = len(self.params) // 2
            return [torch.optim.SGD(self.params[:half], lr=lr), torch.optim.SGD(self.params[half:], lr=lr / 2)]
        if self.args.opt == "groups":
            flat = [p for p in self.params if p.dim() < 2]
            deep = [p for p in self.params if p.dim() >= 2]
            return [torch.optim.SGD([{"params": flat}, {"params": deep, "weight_decay": 0.01}], lr=lr, momentum=0.9)]
        return [torch.optim.SGD(self.params, lr=lr)]

    def window(self, step):
        """The micro-batches of this rank, and the tokens that all ranks have in theirs."""
        accum = self.args.accum
        batch = sentences(self.args.seed, step, self.args.batch, self.args.lengths)
        reader = 0 if self.args.fault == "same-data" else self.rank
        parts = [part(batch, reader * accum + m, self.world * accum) for m in range(accum)]
        tokens = torch.tensor(float(sum((targets != IGNORE).sum() for _, targets in parts)))
        dist.all_reduce(tokens)
        return parts, tokens

    def loss(self, logits, targets, tokens):
        args, fault = self.args, self.args.fault
        logits, targets = logits.float().reshape(-1, VOCAB), targets.reshape(-1)
        if args.loss == "mean":  # right if all have the same number of tokens
            return nn.CrossEntropyLoss(label_smoothing=args.smoothing)(logits, targets) / args.accum
        if args.loss == "window-sum":
            return nn.CrossEntropyLoss()(logits, targets)
        if args.loss == "none":
            each = nn.CrossEntropyLoss(reduction="none")(logits, targets.clamp(min=0))
            total = (each * (targets != IGNORE)).sum()
        else:
            total = nn.CrossEntropyLoss(reduction="sum", label_smoothing=args.smoothing)(logits, targets)
        factor = {"averaged-again": 1, "times-world": self.world**2}.get(fault, self.world)
        return total * factor * args.loss_scale / tokens

    def no_sync_for(self, m):
        """Whether micro-batch m leaves the gradients where they are."""
        fault, accum = self.args.fault, self.args.accum
        if fault == "never":
            return True
        if fault == "sync-first":
            return m != 0
        if fault == "sync-second":
            return m != 1
        if fault == "sync-late":  # off by one: the window ends without
            return (m + 1) % (accum + 1) != 0
        return m != accum - 1 and self.args.sync == "last"

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def micro_step(self, m, part, tokens):
        quiet = self.ddp.no_sync if self.no_sync_for(m) else contextlib.nullcontext
        cast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.args.autocast)
        inputs, targets = part
        if self.args.fault == "forward-outside":
            with self.ddp.no_sync(), cast:
                loss = self.loss(self.model(inputs), targets, tokens)
            with quiet():
                self.backward(loss)
            return
        with quiet():
            with cast:
                loss = self.loss(self.model(inputs), targets, tokens)
            self.backward(loss)

    def after_backward(self):
        grads = [p.grad for p in self.params if p.grad is not None]
        if self.args.fault == "world-twice":
            for g in grads:
                g.div_(self.world)
        if self.args.fault == "window-twice":
            for g in grads:
                g.div_(self.args.accum)
        if self.args.fault == "delayed":
            fresh = [g.clone() for g in grads]
            for g, old in zip(grads, self.waiting or fresh, strict=True):
                g.copy_(old)
            self.waiting = fresh
        if self.args.clip == "norm":
            nn.utils.clip_grad_norm_(self.params, self.args.max_norm)
        elif self.args.clip == "value":
            nn.utils.clip_grad_value_(self.params, 0.01)

    def train(self, steps):
        for step in range(steps):
            parts, tokens = self.window(step)
            if self.args.fault != "no-zero":
                for optimizer in self.optimizers:
                    optimizer.zero_grad(set_to_none=not self.args.keep_zeros)
            for m, micro in enumerate(parts):
                if self.args.fault == "zero-inside":
                    self.optimizers[0].zero_grad()
                self.micro_step(m, micro, tokens)
            if step == self.args.skip:  # the next step begins with zero_grad
                continue
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
            self.after_backward()
            for optimizer in self.optimizers:
                self.scaler.step(optimizer)
            self.scaler.update()


def train(args):
    trainer = Trainer(args)
    trainer.train(args.steps)
    if trainer.rank == 0:
        print("done")
        if args.save:
            torch.save(trainer.plain.state_dict(), args.save)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(arguments(argparse.ArgumentParser(description=__doc__)))
    dist.destroy_process_group()
