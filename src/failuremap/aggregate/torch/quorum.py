"""The rules over the replicas of torchft's quorum: some of them may be lost at any step.

torchft's Manager forms the quorum, moves the gradients and votes on the step. Here each gradient travels as a sum
beside its count, so that what it is divided by is what arrived.

Legend: P parameters, K replicas that take part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from failuremap.aggregate.checks import checked_rule
from failuremap.aggregate.torch.backend import local
from failuremap.aggregate.torch.report import Report
from failuremap.aggregate.torch.settings import Settings
from failuremap.errors import InvalidArgument


class Manager(Protocol):
    """What is needed of `torchft.Manager`."""

    def num_participants(self) -> int:
        """Returns how many replicas take part in this step."""

    def participating_rank(self) -> int | None:
        """Returns this replica's place among them; None where it takes no part, such as while it recovers."""

    def allreduce(self, tensor: Tensor, *, reduce_op: Any) -> Any:
        """Starts a sum over the replicas."""

    def errored(self) -> Any:
        """Returns what went wrong in this step; None where nothing did."""

    def report_error(self, error: Exception) -> None:
        """Makes this replica vote against the step."""

    def should_commit(self) -> bool:
        """Votes on the step."""


class Quorum:
    """Combines a model's gradients over the replicas that arrived; one for each rank of a replica.

    `weighted_mean` is the mean over the units of the replicas that take part: of gradients that are means over n_k
    units each, n_k/N with the N that arrived. `mean` has 1/K. A `sum` is of disjoint parts, for one of which nothing
    else can stand: where less than all replicas take part the step is void. A step during which a replica is lost is
    void under any rule.

    Args:
        manager: The `torchft.Manager` of this rank.
        model: Its parameters' gradients are combined; of DTensors each rank's own part.
        rule: `weighted_mean`, `mean` or `sum`.
        replica_count: For `sum`: how many replicas hold a part.

    Raises:
        InvalidArgument: An unknown rule; `replica_count` is missing, or has no use.

    Example:
        quorum = Quorum(manager, model)
        for inputs, targets in loader:
            manager.start_quorum()
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            if quorum.step(count=len(inputs)):
                optimizer.step()
    """

    def __init__(
        self, manager: Manager, model: nn.Module, rule: str = "weighted_mean", *, replica_count: int | None = None
    ) -> None:
        checked_rule(rule)
        fits = type(replica_count) is int and replica_count > 0 if rule == "sum" else replica_count is None
        if not fits:
            raise InvalidArgument(
                f"replica_count={replica_count!r} with rule={rule!r}; for a sum say how many replicas hold a part, 1 "
                "or more, and for the other rules leave it out."
            )
        self._manager = manager
        self._own = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self._own:
            raise InvalidArgument("model has no parameter that requires a gradient.")
        self._settings = Settings(rule, "mean" if rule == "weighted_mean" else None, exact=False, nonfinite="propagate")
        self._replica_count = replica_count
        self.report: Report | None = None
        """What the last step held, by the replicas' places in the quorum; None where it was void."""
        self.reason = ""
        """Why the last step was void; "" where it was not."""

    def step(self, count: Any = None) -> bool:
        """Makes the gradients those of the rule, and votes: in the place of `manager.should_commit()`.

        Args:
            count: The units that this replica's gradients are means over; 0 or more. For `weighted_mean` only. With 0
                they contribute nothing, whatever they hold.

        Returns:
            Whether to step. If not, all gradients are None and no weight may change: the step is void (`reason` says
            why), or no replica had a unit.

        Raises:
            InvalidArgument: The count is none, is missing, or has no use. This replica has not voted.
        """
        units = self._settings.checked_count(count, self._manager.participating_rank() or 0)
        arrived = self._manager.num_participants()
        if self._replica_count is not None and arrived != self._replica_count:
            self._manager.report_error(
                RuntimeError(f"{arrived} of {self._replica_count} parts arrived, and a sum needs them all")
            )
        sums = self._sums(units)
        message = self._message(units, arrived)
        for work in [self._manager.allreduce(each, reduce_op=dist.ReduceOp.SUM) for each in (*sums.values(), message)]:
            work.wait()
        error = self._manager.errored()
        committed = self._manager.should_commit()
        counts = [int(value) for value in message[:arrived].tolist()] if committed else []
        self.report = Report(self._settings.rule, dict(enumerate(counts))) if committed else None
        self.reason = "" if committed else _reason(error)
        total = sum(counts)
        self._give(sums, self._settings.divisor(total), message[arrived:].tolist() if total else [0.0] * len(self._own))
        return total > 0

    @torch.no_grad()
    def _sums(self, units: int) -> dict[torch.dtype, Tensor]:
        """Returns this replica's gradients times its count, one behind the other, by the dtype that they add up in."""
        parts: dict[torch.dtype, list[Tensor]] = {}
        for parameter in self._own:
            values = _values(parameter)
            if parameter.grad is None or not units:
                values = torch.zeros_like(values)
            parts.setdefault(values.dtype, []).append(values * units)
        return {dtype: torch.cat(values) for dtype, values in parts.items()}

    def _message(self, units: int, arrived: int) -> Tensor:
        """Returns the count, at this place among K, and for each of P parameters whether it has a gradient."""
        message = torch.zeros(arrived + len(self._own), dtype=torch.float64)
        place = self._manager.participating_rank()
        if place is not None and units:
            message[place] = units
            message[arrived:] = torch.tensor([float(parameter.grad is not None) for parameter in self._own])
        return message.to(self._own[0].device)

    @torch.no_grad()
    def _give(self, sums: Mapping[torch.dtype, Tensor], divisor: int, holders: Sequence[float]) -> None:
        """Gives each parameter its gradient; None to those that no replica has one of."""
        starts = dict.fromkeys(sums, 0)
        for parameter, held in zip(self._own, holders, strict=True):
            wide, start = _wide(parameter.dtype), starts[_wide(parameter.dtype)]
            starts[wide] += local(parameter).numel()
            if not held:
                parameter.grad = None
                continue
            if parameter.grad is None or parameter.grad.is_sparse:
                parameter.grad = torch.zeros_like(parameter)
            gradient = local(parameter.grad)
            gradient.copy_((sums[wide][start : starts[wide]] / divisor).view_as(gradient))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _values(parameter: Tensor) -> Tensor:
    """Returns the numbers of a gradient, flat and in the dtype that they add up in; of none the parameter's own."""
    held = parameter if parameter.grad is None else parameter.grad
    return local(held.to_dense() if held.is_sparse else held).reshape(-1).to(_wide(parameter.dtype))


def _reason(error: Any) -> str:
    if error is None:
        return "less replicas took part than min_replica_size, or another rank of this replica voted against the step"
    failure = getattr(error, "original_exception", error)
    return f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0]}"
