"""What a handle needs of a wrapper: one backend a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from failuremap.aggregate.torch.ranks import Ranks, Tally
from failuremap.aggregate.torch.settings import Settings
from failuremap.aggregate.torch.window import Window


class Backend(ABC):
    """Brings the gradients of one window together.

    Attributes:
        ranks: The ranks that share the gradient.
        names: Parameter -> its name, as the model has them now.
        keeps_exact_sums: Whether `exact` holds for micro-batches that are not reduced at once.
        grads_may_move: Whether the wrapper itself replaces gradients between two backwards.
        window: The open window, if there is one.
        running: Whether `handle.backward` is at work.
    """

    grads_may_move = False
    keeps_exact_sums = True

    def __init__(self, model: nn.Module, settings: Settings, ranks: Ranks) -> None:
        self.settings = settings
        self.ranks = ranks
        self._model = model
        self.look_again()
        self.window: Window | None = None
        self.running = False

    def refuse(self) -> None:  # noqa: B027
        """Refuses a model or a setting that this backend can't serve.

        Raises:
            InvalidArgument: It is one.
        """

    def look_again(self) -> None:
        """Learns the model's parameters anew: loading or moving a model may have put others in."""
        self.names = {parameter: name for name, parameter in self._model.named_parameters()}

    @abstractmethod
    def install(self) -> None:
        """Puts the rule in the place of the wrapper's own reduction."""

    def exponent(self, count: int) -> int:
        """Returns the new window's exponent, from the count of its first micro-batch that has one."""
        return count.bit_length()

    def leaves(self) -> Iterable[Tensor]:
        """Returns the tensors that autograd brings this model's gradients to."""
        return self.names

    def before(self) -> None:  # noqa: B027  a wrapper may have nothing to do
        """Prepares the gradients held for another backward."""

    def after(self) -> None:  # noqa: B027
        """Follows up on a backward that has ended."""

    @abstractmethod
    def close(self, window: Window) -> Tally:
        """Returns what all ranks put in; the gradients are final but for `finish`."""

    def finish(self, window: Window, total: int) -> None:  # noqa: B027
        """Makes the gradients those of the rule."""

    def end(self) -> None:
        """Forgets the window, not its gradients."""
        self.window = None

    def drop(self) -> None:
        """Forgets the window and its gradients."""
        self.end()
        for parameter in self.names:
            parameter.grad = None

    def open_window(self) -> Window:
        """Returns the open window, a new one if there is none."""
        if self.window is None:
            self.window = Window()
        return self.window


@torch.no_grad()
def local(gradient: Tensor) -> Tensor:
    """Returns this rank's part of a gradient: of a DTensor the local tensor, of a plain one all of it."""
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def held(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Returns this rank's part of the gradients that are there."""
    return [local(p.grad) for p in parameters if p.grad is not None]


@torch.no_grad()
def divide(gradients: Sequence[Tensor], divisor: float) -> None:
    """Divides gradients in place."""
    for gradient in gradients if divisor != 1 else ():
        gradient.div_(divisor)


@torch.no_grad()
def all_finite(gradients: Iterable[Tensor]) -> bool:
    """Whether no gradient holds infinity or NaN."""
    return all(bool(values_of(gradient).isfinite().all()) for gradient in gradients)


def values_of(gradient: Tensor) -> Tensor:
    """Returns the numbers of a gradient; of a sparse one those that are stored."""
    return gradient._values() if gradient.is_sparse else gradient
