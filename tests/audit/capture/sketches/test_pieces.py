"""The sketches of a record are made together and are those that each tensor has alone."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.torch

SHAPES = [(7,), (129,), (64, 64), (2, 70_001), (131, 3), (512,), (0,), (512, 600)]


def test_sketches_made_together_are_those_made_alone():
    torch = pytest.importorskip("torch")
    from failuremap.audit.capture.sketches.pieces import together
    from failuremap.audit.capture.sketches.sketch import Sketch

    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator) for shape in SHAPES]
    sketches = [Sketch(shape) for shape in SHAPES]
    alone = [sketch(tensor).numpy() for sketch, tensor in zip(sketches, tensors, strict=True)]

    found = together([sketch.read(tensor, keep=False) for sketch, tensor in zip(sketches, tensors, strict=True)])

    assert np.array_equal(found, np.concatenate(alone))
    assert len(together([])) == 0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_piece_that_is_kept_does_not_change_with_its_tensor(shape):
    torch = pytest.importorskip("torch")
    from failuremap.audit.capture.sketches.pieces import together
    from failuremap.audit.capture.sketches.sketch import Sketch

    tensor, sketch = torch.ones(shape), Sketch(shape)
    right, piece = sketch(tensor).numpy(), sketch.read(tensor)

    tensor.fill_(5)

    assert np.array_equal(together([piece]), right)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_square_that_is_measured_along_the_way_is_that_of_the_tensor(dtype):
    torch = pytest.importorskip("torch")
    from failuremap.audit.capture.sketches.sketch import Sketch

    tensor = torch.randn(700, 513, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))

    square = Sketch((700, 513)).read(tensor, keep=False).square

    assert float(square) == pytest.approx(float(tensor.double().square().sum()), rel=1e-5)
