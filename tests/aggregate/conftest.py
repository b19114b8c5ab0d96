"""What the tests of aggregation share: every way to an exact sum."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from failuremap.aggregate import exact_blocks


@pytest.fixture(params=["compiled", "compiled for any processor", "numpy"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, require_module: Callable[..., None]) -> str:
    """Run a test by the compiled kernel, by its form for any processor, and without it."""
    kernel = exact_blocks.kernel
    if request.param == "numpy":
        monkeypatch.setattr(exact_blocks, "kernel", None)
        return "numpy"
    require_module("failuremap.aggregate._exact", "with a C compiler: touch pyproject.toml, then make venv")
    if request.param != "compiled":
        portable = SimpleNamespace(BLOCK=kernel.BLOCK, weighted_sum=kernel.weighted_sum_portably)
        monkeypatch.setattr(exact_blocks, "kernel", portable)
    return str(request.param)
