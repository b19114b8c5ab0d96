"""What a training loop holds of an attached model: two lines of it, and the report."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from failuremap.aggregate.torch.backend import Backend, held, local, values_of
from failuremap.aggregate.torch.masking import scaled_leaves
from failuremap.aggregate.torch.ranks import Notice, Tally
from failuremap.aggregate.torch.report import Report
from failuremap.aggregate.torch.snapshot import Snapshot, snapshot
from failuremap.aggregate.torch.window import Window
from failuremap.aggregate.torch.words import problem_of
from failuremap.errors import InvalidArgument, StepVoid

_VOID = "This step is void: its gradients are dropped, no weight has changed."
_LOW_PRECISION = (torch.float16, torch.bfloat16)


class Handle:
    """Runs the backwards of an attached model, and finishes each window's gradient; `attach` makes one.

    A window is the micro-batches between two steps. Each is weighed by its own count; the window's gradient is the sum
    over micro-batches and ranks, divided once by the counts that arrived.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._settings = backend.settings
        self._seen = Snapshot([], None)
        self._report: Report | None = None

    @property
    def report(self) -> Report | None:
        """What the last step really held; None before the first."""
        return self._report

    def backward(self, loss: Tensor, count: Any = None, *, retain_graph: bool = False) -> None:
        """Runs the backward of one micro-batch, in the place of `loss.backward()`.

        Args:
            loss: The micro-batch's loss, one number; a scaled one of `GradScaler` too. It is not divided by the length
                of the window, nor by the number of ranks.
            count: The units that this loss is the mean or sum of; 0 or more, a number or a tensor of one. A micro-batch
                with count 0 contributes nothing, whatever its gradient holds. For `weighted_mean` only, and needed
                there.
            retain_graph: As of `Tensor.backward`.

        Raises:
            InvalidArgument: The count is no count, or the loss is not one number; no gradient has changed.
            StepVoid: The gradients are not those that the handle left: `zero_grad()` was forgotten, or `step()`.
        """
        units = self._settings.checked_count(count, self._backend.ranks.own)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            found = (
                f"has shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"is of type {type(loss).__name__}"
            )
            raise InvalidArgument(f"loss {found} on rank {self._backend.ranks.own}; expected a tensor of one number.")
        window = self._continued() if self._backend.window else self._opened()
        # While nothing is held but zeros.
        if not (window.count or window.messages or self._settings.exact) and self._settings.weighs:
            window.exponent = self._backend.exponent(units)
        self._backend.before()
        window.add(units)
        try:
            self._run(loss, units, window.exponent, retain_graph)
            self._backend.after()
        except Exception as failure:
            window.notice |= Notice.FAILED
            window.reason = _first_line(failure)
            raise
        finally:
            self._backend.running = False
            self._seen = snapshot(self._backend.names)

    def step(self) -> bool:
        """Finishes the window's gradient: call it after the last backward, before clipping and `optimizer.step()`.

        Returns:
            Whether there is an update. Where all counts were 0 there is none: the gradients are None, on all ranks.

        Raises:
            StepVoid: The window's gradients are no update, such as after a failed collective; they are None now, and no
                weight has changed.
        """
        window = self._backend.window
        if window is None:
            raise StepVoid(
                f"handle.step() on rank {self._backend.ranks.own} without a backward since the last one; call "
                "handle.backward(loss, ...) for each micro-batch before it, with count=0 where a rank has no data."
            )
        if not window.notice & (Notice.FAILED | Notice.UNCOUNTED) and self._changed():
            window.notice |= Notice.CHANGED
        try:
            tally = self._backend.close(window)
        except Exception as failure:
            self._backend.drop()
            what = "a backward failed" if window.reason else "the ranks could not exchange their counts"
            reason = window.reason or _first_line(failure)
            raise StepVoid(f"{what} on rank {self._backend.ranks.own} ({reason}). {_VOID}") from failure
        return self._finished(window, tally)

    def drop(self) -> None:
        """Forgets the open window, its counts and its gradients; all ranks do so, or none."""
        self._backend.drop()

    def _finished(self, window: Window, tally: Tally) -> bool:
        tally.notices[self._backend.ranks.index] |= window.notice
        problem = problem_of(tally, self._backend, window)
        if problem:
            self._backend.drop()
            raise StepVoid(f"{problem} {_VOID}")
        self._report = self._reported(tally)
        if tally.total:
            self._backend.finish(window, tally.total)
            self._backend.end()
        else:
            self._backend.drop()
        return tally.total > 0

    def _reported(self, tally: Tally) -> Report:
        names = self._backend.ranks.names
        joined, excluded = (
            tuple(rank for rank, said in zip(names, tally.notices, strict=True) if said & notice)
            for notice in (Notice.JOINED, Notice.EXCLUDED)
        )
        counts = dict(sorted(zip(names, tally.counts, strict=True)))
        return Report(self._settings.rule, counts, joined, excluded, self._settings.exact)

    def _run(self, loss: Tensor, units: int, exponent: int, retain_graph: bool) -> None:
        factor = units / 2**exponent if self._settings.weighs else 1.0
        # A loss of low precision would round the factor, the same way for all elements.
        on_leaves = units == 0 or (factor != 1.0 and loss.dtype in _LOW_PRECISION)
        seed = torch.full_like(loss, 1.0 if on_leaves else factor)
        self._backend.running = True
        with scaled_leaves(self._backend.leaves(), factor if units else 0.0) if on_leaves else nullcontext():
            loss.backward(seed, retain_graph=retain_graph)

    def _opened(self) -> Window:
        self._backend.look_again()
        names = self._backend.names
        left = next((p for p in names if p.grad is not None and bool(values_of(local(p.grad)).any())), None)
        if left is not None:
            raise StepVoid(
                f"the gradient of {names[left]!r} on rank {self._backend.ranks.own} is not None or 0 before the "
                "window's first backward; call optimizer.zero_grad() after each step, and handle.backward in the place "
                "of every loss.backward()."
            )
        return self._backend.open_window()

    def _continued(self) -> Window:
        window = self._backend.open_window()
        if window.notice & (Notice.FAILED | Notice.UNCOUNTED) or not self._changed():
            return window
        if not any(bool(values_of(gradient).any()) for gradient in held(self._backend.names)):
            raise StepVoid(
                f"optimizer.zero_grad() on rank {self._backend.ranks.own} came before handle.step(): it took away the "
                "gradients of an open window. Call handle.step() after each window's last backward, or handle.drop() "
                "where a window is given up."
            )
        if not self._backend.grads_may_move:
            window.notice |= Notice.CHANGED
        return window

    def _changed(self) -> bool:
        return not snapshot(self._backend.names).same_as(self._seen)


def _first_line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0]}"
