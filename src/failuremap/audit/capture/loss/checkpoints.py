"""Looks into losses that are computed under checkpointing of the reentrant kind.

Such a loss is computed without a graph, and again in backward, which goes backward through it by a pass of its own, one
inside the other. What the outer pass meets is one function; what that function holds is seen in the inner pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

# torch's name for the function; the one that is not reentrant leaves the graph as it is
FUNCTION = "CheckpointFunction"


class Checkpoints:
    """The checkpoints of one pass that it meets where it leaves the arithmetic around its losses."""

    def __init__(self) -> None:
        self.unseen: list[str] = []
        self.waiting = 0
        self.inside = False
        """Whether one of them runs and has called the pass that begins now, which is its inner one."""
        self._runs = False
        self._inner: list[list[str]] = []
        self._is_clear = True

    def expect(self, nodes: Sequence[Any], unseen: list[str]) -> None:
        """Waits for these nodes; the function's name leaves the unseen terms when all inner passes are seen."""
        self.unseen, self.waiting, self._runs, self._is_clear = unseen, len(nodes), False, True
        for node in nodes:
            handles = [node.register_prehook(self._enter)]
            handles.append(node.register_hook(lambda *_, handles=handles: self._leave(handles)))

    def called_from(self, frame: FrameType) -> None:
        """Says who calls the pass that begins: a checkpoint itself, or what it runs again."""
        self.inside = self._runs and frame.f_code.co_qualname.endswith(f"{FUNCTION}.backward")

    def add(self, unseen: list[str]) -> None:
        """Tells of an inner pass, and of the terms that are unseen in it; they may become fewer while it runs."""
        self._runs = False
        self._inner.append(unseen)

    def _enter(self, _: Any) -> None:
        self._runs, self._inner = True, []

    def _leave(self, handles: list[Any]) -> None:
        for handle in handles:
            handle.remove()
        self._runs, self.waiting = False, self.waiting - 1
        self._is_clear &= bool(self._inner) and not any(self._inner)
        if not self.waiting and self._is_clear and FUNCTION in self.unseen:
            self.unseen.remove(FUNCTION)
