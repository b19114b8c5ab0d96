"""Who calls a collective: a line of the script, or a framework that shards the parameters."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.torch


def called_from(*paths: str) -> Any:
    """What is found where functions in these files call each other, the first one first."""
    from failuremap.audit.capture.callers import caller_of

    inner: Callable[[], Any] = lambda: caller_of(sys._getframe(1))  # noqa: E731
    for path in reversed(paths):
        names: dict[str, Any] = {}
        exec(compile("def call(inner):\n    return inner()", path, "exec"), names)
        inner = functools.partial(names["call"], inner)
    return inner()


COMM = ("/lib/deepspeed/utils/nvtx.py", "/lib/deepspeed/comm/comm.py", "/lib/deepspeed/comm/torch.py")


@pytest.mark.parametrize("path", ["zero/stage3.py", "engine.py", "fp16/fused_optimizer.py"])
def test_what_deepspeed_calls_for_itself_is_not_the_scripts(path):
    found = called_from("/home/me/train.py", f"/lib/deepspeed/runtime/{path}", *COMM)

    assert (found.own, found.site) == (False, "")


@pytest.mark.parametrize("path", ["/home/me/train.py", "/lib/deepspeed/sequence/layer.py"])
def test_what_a_script_or_a_layer_calls_through_deepspeed_is_its_own(path):
    found = called_from("/home/me/start.py", path, *COMM)

    assert (found.own, found.site) == (True, f"{path.rpartition('/')[2]}:2")


def test_a_pipeline_of_deepspeed_sends_activations_and_shards_nothing():
    assert called_from("/home/me/train.py", "/lib/deepspeed/runtime/pipe/p2p.py", *COMM).own


def test_negative_control_a_script_that_calls_torch_itself_is_named():
    found = called_from("/lib/deepspeed/runtime/engine.py", "/home/me/train.py")

    assert (found.own, found.site) == (True, "train.py:2")
