"""The compiled kernel reads what torch reads, trusts no caller, and leaves to torch what it cannot read."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from audit.capture.meshes import layouts

pytestmark = pytest.mark.torch

SHAPES = [(), (7,), (128,), (0, 5), (1009,), (131, 3), (64, 64), (7, 11, 13), (2, 70_001)]
FIT = {
    "shape": np.array([3, 70]), "first": 0, "left": np.ones(3, "f4"), "right": np.ones(70, "f4"),
    "at": np.array([5, 209]), "to": np.array([0, 1]), "coordinate_count": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(params=["compiled", "compiled for any processor"])
def kernel(request, torch, require_module, monkeypatch):
    """The compiled module, or its form for any processor."""
    require_module(
        "failuremap.audit.capture.sketches._sketch", "with a C compiler: touch pyproject.toml, then make venv"
    )
    from failuremap.audit.capture.sketches import _sketch, compiled

    best = SimpleNamespace(plan=_sketch.plan, sample=_sketch.sample, read=_sketch.read, measure=_sketch.measure)
    portable = SimpleNamespace(**vars(best) | {"read": _sketch.read_portably, "measure": _sketch.measure_portably})
    monkeypatch.setattr(compiled, "kernel", portable if request.param != "compiled" else best)
    return compiled.kernel


@pytest.fixture
def both(kernel, monkeypatch):
    """A function that makes a reader of sketches twice: by the kernel, and by torch alone."""
    from failuremap.audit.capture.sketches import compiled

    def make(reader, *args):
        by_kernel = reader(*args)
        with monkeypatch.context() as patched:
            patched.setattr(compiled, "kernel", None)
            return by_kernel, reader(*args)

    return make


def drawn(torch, shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def numbers(piece):
    from failuremap.audit.capture.sketches.pieces import together

    return together([piece])


def close(found, right):
    return float(np.linalg.norm(found - right)) <= 1e-6 * float(np.linalg.norm(right))


def is_made(piece):
    return type(piece).__name__ == "Made"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_reads_what_torch_reads(shape, torch, both):
    from failuremap.audit.capture.sketches.sketch import Sketch

    (sketch, by_torch), tensor = both(Sketch, shape), drawn(torch, shape)

    assert is_made(sketch.read(tensor))
    assert not is_made(by_torch.read(tensor))
    for keep in (True, False):
        assert close(numbers(sketch.read(tensor, keep=keep)), numbers(by_torch.read(tensor, keep=keep)))
    assert np.array_equal(numbers(sketch.sample(tensor)), numbers(by_torch.sample(tensor)))
    assert np.array_equal(numbers(sketch.read(tensor))[: sketch.coordinate_count], numbers(sketch.sample(tensor)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_square_measured_along_the_way_is_that_of_the_tensor(shape, torch, kernel):
    from failuremap.audit.capture.sketches.sketch import Sketch

    tensor = drawn(torch, shape)

    assert Sketch(shape).read(tensor, keep=False).square == pytest.approx(float(tensor.double().square().sum()), 1e-6)
    assert Sketch(shape).read(tensor).square is None


@pytest.mark.parametrize("shape", [(128,), (1009,), (131, 3), (512, 8)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_it_reads_of_a_shard_what_torch_reads(shape, dim, torch, both):
    from torch.distributed.tensor.placement_types import Shard

    from failuremap.audit.capture.sketches.shard_sketch import ShardSketch
    from failuremap.audit.capture.sketches.sketch import Sketch

    tensor, sketch = drawn(torch, shape), Sketch(shape)
    for layout in layouts(torch, shape, (3,), (Shard(min(dim, len(shape) - 1)),)):
        shard, by_torch = both(ShardSketch, sketch, layout)
        part = tensor
        for at, index in enumerate(layout.held):
            part = part.index_select(at, index)

        assert is_made(shard.read(part)) == (sketch.raw or (part.numel() > 0 and part.shape[1:] == tensor.shape[1:]))
        assert close(numbers(shard.read(part)), numbers(by_torch.read(part)))
        assert np.array_equal(numbers(shard.sample(part)), numbers(by_torch.sample(part)))


def test_what_it_makes_and_what_waits_stand_in_one_record_in_their_order(torch, both):
    from failuremap.audit.capture.sketches.pieces import together
    from failuremap.audit.capture.sketches.sketch import Sketch

    shapes = [(7,), (129,), (64, 64), (512, 600)]
    tensors, sketches = [drawn(torch, shape) for shape in shapes], [both(Sketch, shape) for shape in shapes]
    made = [sketch.read(tensor) for (sketch, _), tensor in zip(sketches, tensors, strict=True)]
    waiting = [sketch.read(tensor) for (_, sketch), tensor in zip(sketches, tensors, strict=True)]

    for mixed in ([made[0], waiting[1], made[2], waiting[3]], [waiting[0], made[1], waiting[2], made[3]]):
        assert close(together(mixed), together(made))
    assert together(made).flags.writeable


def test_a_scale_divides_what_is_made_as_it_divides_the_tensor(torch, kernel):
    from failuremap.audit.capture.sketches.sketch import Sketch

    tensor, scale = drawn(torch, (70, 70)), torch.tensor(1024.0)

    assert np.array_equal(
        numbers(Sketch((70, 70)).read(tensor).over(scale)), numbers(Sketch((70, 70)).read(tensor / scale))
    )


# ---- what it leaves to torch


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor, torch: tensor.double(),
        lambda tensor, torch: tensor.bfloat16(),
        lambda tensor, torch: tensor.t().contiguous().t(),
        lambda tensor, torch: torch.stack([tensor, tensor], 2)[..., 0],
        lambda tensor, torch: tensor.to_sparse(1),
        lambda tensor, torch: torch.complex(tensor, -tensor).conj().imag,
    ],
    ids=["float64", "bfloat16", "by columns", "gaps", "sparse", "negated by a flag"],
)
def test_what_it_cannot_read_torch_reads(change, torch, both):
    from failuremap.audit.capture.sketches.sketch import Sketch

    (sketch, by_torch), tensor = both(Sketch, (70, 65)), change(drawn(torch, (70, 65)), torch)

    assert sketch.made(tensor) is None
    assert close(numbers(sketch.read(tensor)), numbers(by_torch.read(tensor)))


@pytest.mark.parametrize("shape", [(65, 70), (4550,), (70, 65, 1), (70, 64)], ids=str)
def test_a_tensor_of_another_shape_is_refused(shape, torch, kernel):
    from failuremap.audit.capture.sketches.sketch import Sketch

    assert Sketch((70, 65)).made(drawn(torch, shape)) is None


def test_a_tensor_without_memory_is_refused(torch, kernel):
    from failuremap.audit.capture.sketches.sketch import Sketch

    freed = drawn(torch, (70, 65))
    freed.untyped_storage().resize_(0)

    assert Sketch((70, 65)).made(torch.empty(70, 65, device="meta")) is None
    assert Sketch((70, 65)).made(freed) is None


def test_large_tensors_are_left_to_several_threads_where_there_are_several(torch, kernel):
    from failuremap.audit.capture.sketches.sketch import Sketch

    large, small, threads = torch.ones(1024, 1024), torch.ones(512, 1024), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        of_two = [is_made(Sketch(tuple(tensor.shape)).read(tensor)) for tensor in (large, small)]
        torch.set_num_threads(1)
        of_one = is_made(Sketch(tuple(large.shape)).read(large))
    finally:
        torch.set_num_threads(threads)

    assert (of_two, of_one) == ([False, True], True)


# ---- no caller is trusted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": np.ones(2, "f4")}, "sizes do not agree"),
        ({"first": 70}, "sizes do not agree"),
        ({"first": -1}, "sizes do not agree"),
        ({"at": np.array([5, 210])}, "sizes do not agree"),
        ({"at": np.array([-1, 5])}, "sizes do not agree"),
        ({"to": np.array([0, 2])}, "sizes do not agree"),
        ({"to": np.array([0])}, "sizes do not agree"),
        ({"right": np.zeros(0, "f4"), "first": 1}, "sizes do not agree"),
        ({"shape": np.array([3, -70])}, "sizes do not agree"),
        ({"left": np.ones(3)}, "a buffer has format 'd'; expected 'f'"),
        ({"at": np.array([5, 209], np.int32)}, "a buffer has format 'i'; expected 'lq'"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, dict) else "",
)
def test_a_plan_that_would_leave_its_arrays_is_refused(changes, message, kernel):
    assert kernel.plan(*FIT.values())
    with pytest.raises(ValueError, match=message):
        kernel.plan(*(FIT | changes).values())


def test_what_is_no_plan_or_no_tensor_is_refused(torch, kernel):
    from torch.utils.dlpack import to_dlpack

    plan, tensor = kernel.plan(*FIT.values()), to_dlpack(torch.ones(3, 70))

    assert np.frombuffer(kernel.sample(plan, tensor), "f4").tolist() == [1.0, 1.0]
    for given in ((tensor, plan), (plan, plan), (plan, torch.ones(3, 70)), (None, tensor)):
        with pytest.raises(ValueError, match="PyCapsule"):
            kernel.read(*given)
    with pytest.raises(TypeError, match="3 arguments; expected a plan and a tensor"):
        kernel.read(plan, tensor, 1)


def test_negative_control_another_sign_is_another_sketch(torch, kernel):
    from torch.utils.dlpack import to_dlpack

    tensor, other = torch.ones(3, 70), FIT | {"left": np.array([1, -1, 1], "f4")}

    read = [kernel.read(kernel.plan(*fit.values()), to_dlpack(tensor)) for fit in (FIT, other)]
    assert [float(np.frombuffer(one, "f4")[2:].sum()) for one in read] == [210.0, 70.0]
