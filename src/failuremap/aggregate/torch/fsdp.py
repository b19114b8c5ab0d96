"""fully_shard (FSDP2) and its 2-D form, HSDP: gradients summed as they are scattered, divided once at the step.

The settings of `fully_shard` are not recursive, so each wrapped module gets its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from failuremap.aggregate.torch.backend import Backend, all_finite, divide, held, local
from failuremap.aggregate.torch.fsdp_modules import param_groups, process_groups, refuse_hooks, wrapped_modules
from failuremap.aggregate.torch.ranks import Message, Notice, Ranks, Tally
from failuremap.aggregate.torch.scatter import ExactReduceScatter, SumReduceScatter, replicas_alone
from failuremap.aggregate.torch.settings import Settings
from failuremap.aggregate.torch.window import Window
from failuremap.errors import InvalidArgument

_NEEDED = ("set_gradient_divide_factor", "set_force_sum_reduction_for_comms", "set_custom_reduce_scatter")


class FSDPBackend(Backend):
    """Divides at the step: the shards hold sums until then, whatever was reduced when."""

    keeps_exact_sums = False

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        self.modules = [module for module in wrapped_modules(model) if param_groups(module)]
        meshes = [process_groups(module) for module in self.modules]
        super().__init__(model, settings, Ranks(max(meshes, key=lambda groups: Ranks(groups).size)))
        self._exponent: int | None = None
        self._saved: dict[Tensor, Tensor] = {}
        self._scatters: list[SumReduceScatter] = []

    def refuse(self) -> None:
        """Refuses what the rule can't be kept for.

        Raises:
            InvalidArgument: An old version of torch, parameters outside of all wrapped modules, hooks of the
                caller's, or a setting that this wrapper can't follow.
        """
        missing = [name for name in _NEEDED if not hasattr(self.modules[0], name)]
        if missing:
            raise InvalidArgument(
                f"torch=={torch.__version__} has no FSDPModule.{missing[0]}; attach to fully_shard needs a later one."
            )
        outside = [
            name
            for name, parameter in self._model.named_parameters()
            if parameter.requires_grad and not hasattr(parameter, "device_mesh")
        ]
        if outside:
            raise InvalidArgument(
                f"parameter {outside[0]!r} is in no module given to fully_shard, so its gradient is never reduced; "
                "wrap its module, or the model itself, too."
            )
        if self.settings.nonfinite == "exclude":
            raise InvalidArgument(
                "nonfinite='exclude' can't be kept under fully_shard, which reduces module after module before a "
                "rank's whole gradient is known; use 'raise'."
            )
        for module in self.modules:
            refuse_hooks(module)
        if self.settings.exact:
            self._refuse_exact()

    def install(self) -> None:
        """Gives each wrapped module a reduction that sums."""
        kind = ExactReduceScatter if self.settings.exact else SumReduceScatter
        for module in self.modules:
            groups = process_groups(module)
            scatter = kind(self._note_reduction, groups, self.ranks.device)
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
            module.set_custom_reduce_scatter(scatter)
            if scatter.needs_hook:
                module.set_all_reduce_hook(scatter.after_all_reduce)
            if self.settings.exact:
                module.set_reduce_scatter_unused_params(True, recurse=False)
            self._scatters.append(scatter)

    def look_again(self) -> None:
        """Learns the shards anew; the model itself may hold gathered parameters in their place."""
        self.names = {each.sharded_param: each._param_fqn or "a parameter" for each in self._managed()}

    def exponent(self, count: int) -> int:
        """Returns the exponent that all ranks agree on; the first window asks them, each step brings the next."""
        if self._exponent is None:
            largest = torch.tensor(count.bit_length()).to(self.ranks.device)
            for group in self.ranks.groups:
                dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
            self._exponent = int(largest)
        return self._exponent

    def leaves(self) -> Iterable[Tensor]:
        """Returns the gathered parameters: autograd never reaches the shards."""
        return [each._unsharded_param for each in self._managed() if hasattr(each, "_unsharded_param")]

    def before(self) -> None:
        """Puts exact sums aside; the next reduction gives the whole window's."""
        if self.settings.exact:
            self._saved = {p: p.grad for p in self.names if p.grad is not None}
            for parameter in self._saved:
                parameter.grad = None

    def after(self) -> None:
        """Gives the sums back to parameters that this backward didn't reduce."""
        for parameter, gradient in self._saved.items():
            if parameter.grad is None:
                parameter.grad = gradient
        self._saved = {}
        window = self.open_window()
        if self.settings.exact and window.unreduced_count:
            window.notice |= Notice.UNREDUCED

    def close(self, window: Window) -> Tally:
        """Returns what all ranks put in: one small sum, now."""
        if window.unreduced_count:
            window.notice |= Notice.UNREDUCED
        if self.settings.nonfinite == "raise" and not all_finite(held(self.names)):
            window.notice |= Notice.NOT_FINITE
        message = Message(self.ranks, window.take(), window.notice)
        self.ranks.add_up(message.slots)
        tally = Tally([message.slots])
        self._exponent = max(tally.counts).bit_length()
        return tally

    def finish(self, window: Window, total: int) -> None:
        """Divides the shards."""
        divisor = self.settings.divisor(total)
        if self.settings.exact:
            for module, scatter in zip(self.modules, self._scatters, strict=True):
                _give_quotient(module, scatter, divisor)
        else:
            divide(held(self.names), divisor / 2**window.exponent)

    def end(self) -> None:
        """Forgets the window, and its exact sums."""
        super().end()
        for scatter in self._scatters:
            scatter.clear()

    def drop(self) -> None:
        """Forgets the window and its gradients, those that wait to be reduced included."""
        super().drop()
        for module in self.modules:
            for group in param_groups(module):
                group._partial_reduce_output = None
        for each in self._managed():
            each.unsharded_accumulated_grad = None
            if hasattr(each, "_unsharded_param"):
                each._unsharded_param.grad = None

    def _refuse_exact(self) -> None:
        if any(replicas_alone(process_groups(module)) for module in self.modules):
            raise InvalidArgument(
                "exact=True needs a mesh that shards over 2 ranks or more beside the replicas; "
                "this one has replicas alone. Use DistributedDataParallel."
            )
        if any(each.offload_to_cpu and each.device.type != "cpu" for each in self._managed()):
            raise InvalidArgument("exact=True can't be kept with CPUOffloadPolicy, which moves the gradients away.")

    def _note_reduction(self) -> None:
        window = self.open_window()
        if not self.running:
            window.notice |= Notice.UNCOUNTED
        window.unreduced_count = 0

    def _managed(self) -> Iterator[Any]:
        for module in self.modules:
            for group in param_groups(module):
                yield from group.fsdp_params


@torch.no_grad()
def _give_quotient(module: Any, scatter: SumReduceScatter, divisor: int) -> None:
    """Gives the shards of a module their exact means: they lie in its gradient as in the reduction's output."""
    quotient = scatter.quotient(divisor) if isinstance(scatter, ExactReduceScatter) else None
    if quotient is None:
        return
    for each in param_groups(module)[0].fsdp_params:
        if each.sharded_param.grad is not None:
            shard = local(each.sharded_param.grad)
            start = shard.storage_offset()
            shard.copy_(quotient[start : start + shard.numel()].view(shard.shape))
