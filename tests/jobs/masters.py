"""Language model in bfloat16 whose optimizer steps on float32 copies of its weights, all by hand."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.2)
parser.add_argument("--dtype", default="bfloat16")
parser.add_argument("--layout", default="each", choices=["each", "flat", "groups", "foreach"])
parser.add_argument(
    "--reduce", default="before", choices=["before", "after"], help="before or after the copy to float32"
)
parser.add_argument(
    "--collect", default="model", choices=["model", "copies", "buffer"], help="where micro-batches are added up"
)
parser.add_argument("--opt", default="sgd", choices=["sgd", "adamw"])
parser.add_argument("--scale", type=float, default=1.0)
parser.add_argument("--own-scales", action="store_true", help="each rank has a loss scale of its own")
parser.add_argument("--skip", type=int, default=-1, help="a step that all ranks leave out when all is copied")
parser.add_argument("--max-norm", type=float, default=0.0)
parser.add_argument("--plain", action="store_true", help="copies that do not say that they require a gradient")
parser.add_argument("--mean", action="store_true", help="averaged over the ranks, not summed")
parser.add_argument("--twins", action="store_true", help="a second copy is stepped on, and goes nowhere")
parser.add_argument("--ema", action="store_true", help="an average of the weights is kept beside")
parser.add_argument("--fault", default="")
parser.add_argument("--save", default="")
args = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(args.seed)
model = TinyLM().to(getattr(torch, args.dtype))
weights = list(model.parameters())
flat = args.layout in ("flat", "groups")


def joined(tensors):
    return torch.cat([tensor.detach().reshape(-1).float() for tensor in tensors])


def copies_of(weights):
    made = [joined(weights)] if flat else [weight.detach().clone().float() for weight in weights]
    return [copy.requires_grad_(not args.plain) for copy in made]


def parts_of(copy, weights):
    """The runs of a flat copy, in the shapes of the weights."""
    sizes = [weight.numel() for weight in weights]
    return [run.view_as(weight) for run, weight in zip(copy.split(sizes), weights, strict=True)]


def groups():
    if args.layout != "groups":
        return [weights]
    return [[w for w in weights if w.dim() > 1], [w for w in weights if w.dim() == 1]]


held = [(group, copies_of(group)) for group in groups()]
masters = [copy for _, copies in held for copy in copies]
kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[args.opt]
twins = [copy.detach().clone().requires_grad_() for copy in masters] if args.twins else []
optimizer = kind([{"params": copies} for _, copies in held] + ([{"params": twins}] if twins else []), lr=args.lr)
for weight in weights if args.collect == "buffer" else ():
    weight.main_grad = torch.zeros(weight.shape)
    weight.register_post_accumulate_grad_hook(lambda weight: to_buffer(weight))
average = [copy.detach().clone() for copy in masters]


def to_buffer(weight):
    weight.main_grad += weight.grad.float()
    weight.grad = None


def loss_of(logits, targets, mine, everyone):
    logits, targets = logits.float().view(-1, VOCAB), targets.reshape(-1)
    total = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
    if args.fault == "counts":
        return total / (targets != IGNORE).sum() / args.accum
    return total / everyone * (world if args.mean else 1)


def reduce(gradients):
    for gradient in gradients[: -1 if args.fault == "skip-bias" else None]:
        dist.all_reduce(gradient)
        if args.mean or args.fault == "counts":
            gradient /= world


def collect(scale):
    """Copy the gradients to float32, where they are unscaled and, between micro-batches, added up."""
    for group, copies in held:
        gradients = [weight.main_grad if args.collect == "buffer" else weight.grad for weight in group]
        found = [joined(gradients)] if flat else [gradient.float() for gradient in gradients]
        if args.fault == "last-copied":
            found[-1].zero_()
        if args.layout == "foreach":
            torch._foreach_mul_(found, 1 / scale)
        else:
            found = [gradient / scale for gradient in found]
        for copy, gradient in zip(copies, found, strict=True):
            fresh = copy.grad is None or args.fault == "overwritten" or args.collect != "copies"
            copy.grad = gradient if fresh else copy.grad + gradient
    model.zero_grad()


def copy_back():
    for group, copies in held:
        for copy in copies if flat else ():
            for weight, run in zip(group, parts_of(copy.detach(), group), strict=True):
                weight.data.copy_(run)
        if args.layout == "foreach":
            torch._foreach_copy_([weight.data for weight in group], [copy.data for copy in copies])
        for weight, copy in zip(group, copies, strict=True) if args.layout == "each" else ():
            weight.data.copy_(copy.data)


for step in range(args.steps):
    batch = sentences(args.seed, step, args.batch)
    parts = [part(batch, rank * args.accum + m, world * args.accum) for m in range(args.accum)]
    everyone = sum((targets != IGNORE).sum() for _, targets in parts).float()
    mine = everyone.clone()
    dist.all_reduce(everyone)
    scale = args.scale * (1 + rank if args.own_scales else 1)
    for inputs, targets in parts:
        (loss_of(model(inputs), targets, mine, everyone) * scale).backward()
        if args.collect == "copies":
            collect(scale)
    if args.reduce == "before" and args.collect == "model" and args.fault != "never-sync":
        reduce([weight.grad for weight in weights])
    if args.collect != "copies":
        collect(args.scale if args.fault == "unscaled-alike" else scale)
    if (args.reduce == "after" or args.collect != "model") and args.fault != "never-sync":
        reduce([copy.grad for copy in masters])
    for copy, twin in zip(masters, twins, strict=False):
        twin.grad = copy.grad.clone()
    if step == args.skip:
        continue
    if args.max_norm:
        torch.nn.utils.clip_grad_norm_(masters, args.max_norm)
    optimizer.step()
    optimizer.zero_grad()
    for weight in weights if args.collect == "buffer" else ():
        weight.main_grad.zero_()
    if args.fault != "never-back":
        copy_back()
    for mean, copy in zip(average, masters, strict=True) if args.ema else ():
        mean.lerp_(copy.detach(), 0.1)

if rank == 0 and args.save:
    torch.save({name: weight.float() for name, weight in model.state_dict().items()}, args.save)
dist.destroy_process_group()
