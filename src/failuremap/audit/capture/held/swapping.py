"""Lets go of tensors while torch swaps their contents: `torch.utils.swap_tensors` refuses one with weak references.

`module.to(...)` swaps the parameters that are DTensors. They stay the same objects and lose their hooks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Watches torch.utils.swap_tensors."""
    original: Callable[[Tensor, Tensor], Any] = torch.utils.swap_tensors

    @functools.wraps(original)
    def swap_tensors(t1: Tensor, t2: Tensor) -> Any:
        held = [(tensor, recorder.let_go(tensor)) for tensor in (t1, t2)]
        try:
            return original(t1, t2)
        finally:
            for tensor, watched in held:
                recorder.take_back(tensor, watched)

    torch.utils.swap_tensors = swap_tensors
