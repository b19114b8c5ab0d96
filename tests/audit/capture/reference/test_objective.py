"""An objective is held to what it promises, and what is wrong with it is one sentence."""

from __future__ import annotations

import pytest

from audit.capture.reference.keeping_by_hand import OBJECTIVE, keep, one_pass, refer, refusal

pytestmark = pytest.mark.torch

RETURNS = "it is to return the sum of the losses of the units in the batch, and their number: (loss_sum, count)"
TWICE = "with all of them put twice its loss"
UNCHECKED = "whether objective returns a sum could not be checked: with the rows of the batch put twice"
INTERACT = (
    ". Where a row's loss depends on the other rows, as in contrastive losses, say so in the reference:  "
    "rows_interact = True"
)
LOSS, NUMBER = "the loss that objective returned is", f"not one number with a gradient; {RETURNS}"
SUM = 'F.cross_entropy(model(x), y, reduction="sum")'

DROPOUT = (
    OBJECTIVE.replace("return torch.nn.Linear(4, 3)", "return Net()")
    + """
class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x):
        return super().forward(self.drop(x))
"""
)


@pytest.fixture
def folder(tmp_path):
    import torch

    keep(tmp_path, torch)
    return tmp_path


def returning(what: str) -> str:
    """The objective with another return value."""
    return OBJECTIVE.replace(f"{SUM}, len(y)", what)


def test_an_objective_that_returns_a_sum_and_its_count_is_taken(folder):
    records = refer(folder)

    assert [record.kind for record in records] == ["reference", "parameter", "parameter", "contribution", "end"]
    assert records[3].fields["units"] == 5
    assert records[3].fields["members"] == [[0, 0]]


def test_the_gradient_is_that_of_the_sum(folder):
    import torch

    kept = torch.load(folder / "kept-rank00000-0-0.pt")
    weight, bias = (kept["parameters"][name]["local"].requires_grad_() for name in ("weight", "bias"))
    (batch,) = kept["passes"]
    inputs, targets = batch["calls"][0]["args"][0], batch["targets"][0]
    torch.nn.functional.cross_entropy(inputs @ weight.T + bias, targets, reduction="sum").backward()

    found = refer(folder)[3].payload

    assert found.tolist() == pytest.approx([*weight.grad.flatten().tolist(), *bias.grad.tolist()], rel=1e-5)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("F.cross_entropy(model(x), y)", f"objective returned a Tensor and no pair; {RETURNS}"),
        (
            "F.cross_entropy(model(x), y), len(y)",
            f"objective returned a mean: with the rows of the batch put twice its loss is the same; {RETURNS}",
        ),
        (
            "F.cross_entropy(model(x), y) / len(y), len(y)",
            f"objective returned no sum over the rows of the batch: {TWICE} is 0.5 times as large; {RETURNS}{INTERACT}",
        ),
        (
            f"{SUM}, 1",
            "objective returned count=1 for the rows of the batch put twice, and 1 for them once; " + RETURNS,
        ),
        (f"{SUM}, -3", f"the count that objective returned is -3; {RETURNS}"),
        (f"{SUM}, float('nan')", f"the count that objective returned is nan; {RETURNS}"),
        (f"{SUM}, y == y", f"the count that objective returned is of shape (5,); {RETURNS}"),
        (f"{SUM}, [3]", f"the count that objective returned is a list; {RETURNS}"),
        (f"{SUM}, 0 * len(y)", "every count that the objective returned is 0"),
        ("model(x), len(y)", f"{LOSS} of shape (5, 3), {NUMBER}"),
        ("1.5, len(y)", f"{LOSS} a float, {NUMBER}"),
        (
            f"{SUM}.detach(), len(y)",
            f"{LOSS} without a gradient, {NUMBER}",
        ),
        (f"{SUM} * float('inf'), len(y)", "the gradients of the reference are not finite (nan or inf)"),
        (
            "(lambda loss: (loss.backward(), loss)[1])(" + SUM + "), len(y)",
            (
                "the loss that objective returned can't go backward: RuntimeError: Trying to backward through the "
                "graph a second time (or directly access saved tensors after they have already been freed)"
            ),
        ),
        ("exit(3), 1", "objective raised SystemExit: 3 (ref.py:9)"),
        (
            "batch.kwargs.rows, 1",
            (
                "objective raised AttributeError: 'dict' object has no attribute 'rows' (ref.py:9); mappings and "
                "dataclasses stand as dicts in the batch, and named tuples as tuples"
            ),
        ),
        ("batch.nothing, 1", "objective raised AttributeError: 'Batch' object has no attribute 'nothing' (ref.py:9)"),
        (
            "(len(y) > 5) and 1 / 0 or " + SUM + ", len(y)",
            f"{UNCHECKED}, objective raised ZeroDivisionError: division by zero (ref.py:9)",
        ),
    ],
)  # fmt: skip
def test_what_is_no_sum_and_count_is_refused(returned, told, folder):
    assert refusal(folder, returning(returned)) == told


CONTRASTIVE = "F.cross_entropy(model(x) @ model(x).T, torch.arange(len(y)), reduction='sum'), len(y)"


@pytest.mark.parametrize(("said", "refused"), [("", True), ("rows_interact = True\n", False)])
def test_rows_that_interact_are_no_sum_until_the_reference_says_so(said, refused, folder):
    told = refusal(folder, said + returning(CONTRASTIVE))

    assert told.endswith(INTERACT) if refused else told == ""


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("model.eval()", "the mode of 'the model'"),
        ("model.bias.requires_grad_(False)", "the weight 'bias'"),
        ("torch.nn.init.zeros_(model.weight)", "the weight 'weight'"),
    ],
)
def test_an_objective_that_changes_the_model_is_refused(line, what, folder):
    told = refusal(folder, OBJECTIVE.replace("    return F.cross", f"    {line}\n    return F.cross"))

    assert told == f"objective changes the model ({what}): it is to compute a loss of the model as the job had it"


def test_dropout_is_refused_and_named(folder):

    told = refusal(folder, DROPOUT)

    assert told.startswith("the objective is random: with other random numbers its gradient differs by ")
    assert told.endswith(
        "% ('drop' is a dropout in training mode). A job that draws random numbers can't be compared; audit it with "
        "dropout off"
    )


def test_the_same_dropout_in_eval_mode_is_taken(tmp_path):
    import torch

    keep(tmp_path, torch, evaluating=["drop"])

    assert refusal(tmp_path, DROPOUT) == ""


def test_an_objective_that_is_not_the_same_twice_is_refused(folder):
    source = "state = [0]\n" + OBJECTIVE.replace(SUM, f"(state.append(0) or len(state)) * {SUM}")

    assert refusal(folder, source) == "two runs of the objective with the same random numbers differ by 50.0%"


def test_a_batch_of_several_calls_has_no_args_of_its_own(tmp_path):
    import torch

    twice_called = one_pass(torch)
    twice_called["calls"] *= 2
    keep(tmp_path, torch, passes=[twice_called])

    assert refusal(tmp_path).startswith(
        "objective raised LookupError: batch.args and batch.kwargs are of one call, and this pass is made of 2 "
        "(Linear, Linear): use batch.calls, or say in the script"
    )


def test_arguments_that_are_no_tensors_are_told_where_the_objective_fails(tmp_path):
    import torch

    keep(tmp_path, torch, left_out=["Graph"])

    assert refusal(tmp_path, returning("None.nodes, 1")) == (
        "objective raised AttributeError: 'NoneType' object has no attribute 'nodes' (ref.py:9); arguments of the "
        "types Graph are no tensors, and stand as None in the batch"
    )


def test_a_gradient_that_is_rounding_alone_holds_very_many_of_them(tmp_path):
    """What is added to all scores alike changes no softmax: its gradient is 0, but for rounding."""
    import torch

    shift = {"local": torch.tensor(0.3), "trained": True}
    torch.manual_seed(0)
    weight, bias = ({"local": torch.randn(size), "trained": True} for size in ((3, 4), (3,)))
    keep(
        tmp_path, torch, parameters={"weight": weight, "bias": bias, "shift": shift}, passes=[one_pass(torch, rows=50)]
    )
    built = "layer = torch.nn.Linear(4, 3); layer.shift = torch.nn.Parameter(torch.zeros(())); return layer"
    source = OBJECTIVE.replace("return torch.nn.Linear(4, 3)", built).replace("model(x)", "model(x) + model.shift")

    found = {r.fields["name"]: r.fields["dtype"] for r in refer(tmp_path, source) if r.kind == "parameter"}

    assert found["weight"] == "float32 x 1.061"
    assert float(found["shift"].removeprefix("float32 x ")) > 1e4


def test_small_types_of_autocast_are_seen(folder):
    cast = OBJECTIVE.replace(
        "    return F.cross", "    with torch.autocast('cpu', torch.bfloat16):\n      return F.cross"
    )

    assert all(r.fields["dtype"].startswith("bfloat16 x ") for r in refer(folder, cast) if r.kind == "parameter")
