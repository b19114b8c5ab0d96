"""What `attach` refuses; run by refused.py."""

from __future__ import annotations

import torch.distributed as dist
from cases import case, ddp, first, fsdp, refusal
from models import Model, wrapped
from scenarios import Scenario
from torch import Tensor, nn

from failuremap import attach


@case
def unknown_rule():
    model = ddp()
    yield refusal(lambda: attach(model, "average"))
    yield f"hooks: {len(model._comm_hooks)}"


@case
def rules_differ():
    model = ddp()
    yield refusal(lambda: attach(model, first({1: "sum", "else": "mean"})))
    yield f"hooks: {len(model._comm_hooks)}"


@case
def losses_differ():
    yield refusal(lambda: attach(fsdp(), loss=first({1: "sum", "else": "mean"})))


@case
def models_differ():
    from torch.distributed.fsdp import fully_shard

    yield refusal(lambda: attach(fully_shard(nn.Linear(2, 1 + dist.get_rank())), "sum"))


@case
def one_rank_refuses():
    yield refusal(lambda: attach(ddp(), first({1: "average", "else": "mean"})))


@case
def long_unreadable_value():
    said = refusal(lambda: attach(ddp(), first({1: "\N{SNOWMAN}" * 900, "else": "mean"})))
    yield f"{said[:58]} ... {len(said)}"


@case
def loss_kind_missing():
    yield refusal(lambda: attach(ddp()))


@case
def loss_kind_without_use():
    yield refusal(lambda: attach(ddp(), "sum", loss="mean"))


@case
def exact_is_no_bool():
    yield refusal(lambda: attach(ddp(), "sum", exact=1))


@case
def unknown_nonfinite():
    yield refusal(lambda: attach(ddp(), "sum", nonfinite="skip"))


@case
def attached_twice():
    model = ddp()
    attach(model, "sum")
    yield refusal(lambda: attach(model, "sum"))


@case
def hook_is_there():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    model = ddp()
    model.register_comm_hook(None, allreduce_hook)
    yield refusal(lambda: attach(model, "sum"))


@case
def nothing_to_train():
    model = fsdp()
    yield refusal(lambda: attach(model.requires_grad_(False), "sum"))


@case
def plain_model():
    yield refusal(lambda: attach(nn.Linear(1, 1), "sum"))


@case
def wrapper_inside():
    yield refusal(lambda: attach(nn.Sequential(ddp()), "sum"))


@case
def data_parallel():
    yield refusal(lambda: attach(nn.DataParallel(nn.Linear(1, 1)), "sum"))


@case
def fsdp_excludes():
    yield refusal(lambda: attach(fsdp(), "sum", nonfinite="exclude"))


@case
def fsdp_parameter_outside():
    from torch.distributed.fsdp import fully_shard

    model = Model()
    fully_shard(model.first)
    yield refusal(lambda: attach(model, "sum"))


@case
def fsdp_hook_is_there():
    model = fsdp()
    model.first.set_all_reduce_hook(no_hook)
    yield refusal(lambda: attach(model, "sum"))


def no_hook(_: Tensor) -> None:
    """Do nothing."""


@case
def exact_replicas_alone():
    yield refusal(lambda: attach(wrapped(Scenario("", "hsdp", options=("replicas_alone",))), "sum", exact=True))
