"""The reduce-scatter of one module under fully_shard: a sum in float32 or better.

Under HSDP the sum over the replicas follows. fully_shard forms it in the module's own precision; where that is low,
or the sum is to be exact, it gets zeros to add up, and `after_all_reduce` puts the right sum in their place.

Legend: K contributions, W elements of a rank's shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from failuremap.aggregate.exact import exact_sum
from failuremap.aggregate.exact_state import ExactSum
from failuremap.aggregate.torch.exact import Wire, numbers_of, rounded
from failuremap.errors import StepVoid

_LOW_PRECISION = (torch.float16, torch.bfloat16)
# The same collective; the newer name came with torch 2.13. Its default operation is the sum.
_reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


def replicas_alone(groups: Sequence[dist.ProcessGroup]) -> bool:
    """Whether a module's shards are all whole, so that fully_shard reduces replicas and nothing else."""
    return len(groups) > 1 and groups[0].size() == 1 and groups[1].size() > 1


class SumReduceScatter:
    """Sums on the wire, in float32 where the gradient is less.

    Args:
        on_reduction: Called for each reduction that is complete, the one over the replicas included.
        groups: The shards' group, then that of the replicas, if there are any.
        device: Where the groups' backend takes tensors from.
    """

    def __init__(
        self, on_reduction: Callable[[], None], groups: Sequence[dist.ProcessGroup], device: torch.device
    ) -> None:
        self._on_reduction = on_reduction
        self.groups = groups
        self.device = device
        self._wide: Tensor | None = None

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Returns memory for one side of the reduction; fully_shard asks for it also where there is nothing to send."""
        if dtype in _LOW_PRECISION and replicas_alone(self.groups):
            raise StepVoid(
                f"reduce_dtype={dtype} would add {self.groups[1].size()} replicas up in that precision; "
                "give fully_shard MixedPrecisionPolicy(reduce_dtype=torch.float32)."
            )
        if not self.needs_hook:
            self._on_reduction()
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, **_: Any) -> Any:
        """Adds up this rank's shard of all inputs."""
        if input_tensor.dtype not in _LOW_PRECISION:
            return _reduce_scatter(output_tensor, input_tensor, group=group)
        wide = torch.empty_like(output_tensor, dtype=torch.float32)
        _reduce_scatter(wide, input_tensor.float(), group=group)
        if len(self.groups) > 1:
            self._wide = wide if self._wide is None else self._wide.add_(wide)
            return output_tensor.zero_()
        return output_tensor.copy_(wide)

    @property
    def needs_hook(self) -> bool:
        """Whether the reduction is complete only with `after_all_reduce`."""
        return len(self.groups) > 1

    def after_all_reduce(self, reduced: Tensor) -> None:
        """Puts the sum over the replicas in its place, where it is not there yet."""
        self._on_reduction()
        if self._wide is not None:
            dist.all_reduce(self._wide, group=self.groups[1])
            reduced.copy_(self._wide)
            self._wide = None

    def clear(self) -> None:
        """Forgets what the window left."""
        self._wide = None


class ExactReduceScatter(SumReduceScatter):
    """Gives, at each reduction, the exact sum of the window so far, rounded once."""

    def __init__(
        self, on_reduction: Callable[[], None], groups: Sequence[dist.ProcessGroup], device: torch.device
    ) -> None:
        super().__init__(on_reduction, groups, device)
        self._arrived: list[Tensor] = []
        self._first: list[Tensor] = []
        self._sum: ExactSum | None = None

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, **_: Any) -> Any:
        """Takes this rank's shard of all inputs; the sum comes after."""
        self._arrived += list(Wire(group, self.device).parts(input_tensor))
        return output_tensor.zero_()

    @property
    def needs_hook(self) -> bool:
        """Whether the reduction is complete only with `after_all_reduce`: always."""
        return True

    def after_all_reduce(self, reduced: Tensor) -> None:
        """Writes the sum."""
        self._on_reduction()
        rows = torch.stack(self._arrived or [reduced.cpu()])
        if len(self.groups) > 1:
            width = rows.shape[1]
            rows = Wire(self.groups[1], self.device).everything(rows.view(-1)).view(-1, width)
        self._arrived = []
        reduced.copy_(self._sum_with(list(rows)))

    def quotient(self, divisor: int) -> Tensor | None:
        """Returns the window's sum over a whole number, rounded once; None where this module was not reduced."""
        if not self._first:
            return None
        return exact_sum(self._first, divisor=divisor) if self._sum is None else self._rounded(divisor)

    def clear(self) -> None:
        """Forgets the window's sum."""
        self._arrived, self._first, self._sum = [], [], None

    def _sum_with(self, rows: list[Tensor]) -> Tensor:
        """Adds rows to the window's sum and returns it rounded; one reduction alone takes the faster way."""
        if not self._first:
            self._first = rows
            return exact_sum(rows)
        if rows[0].shape != self._first[0].shape:
            raise StepVoid(
                "exact=True needs the same parameters in every micro-batch of a window, but a module's shard has "
                f"{rows[0].numel()} elements after {self._first[0].numel()}."
            )
        if self._sum is None:
            self._sum = ExactSum(rows[0].numel())
            for row in self._first:
                self._sum.add(numbers_of(row))
        for row in rows:
            self._sum.add(numbers_of(row))
        return self._rounded(1)

    def _rounded(self, divisor: int) -> Tensor:
        assert self._sum is not None
        return rounded(self._sum, divisor, self._first[0])
