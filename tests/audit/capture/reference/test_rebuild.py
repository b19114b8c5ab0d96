"""The model of the job is made anew, or it is said why that can't be done."""

from __future__ import annotations

import pytest

from audit.capture.reference.keeping_by_hand import OBJECTIVE, keep, refusal

pytestmark = pytest.mark.torch

BUILD = "return torch.nn.Linear(4, 3)"
UNBUILT = OBJECTIVE.replace("def build", "def make")
SPLIT = "if each rank holds a part of it, say along which dimension:  shards = {'name': 1}"
ADVICE = "define  build()  in the reference, which returns the model as it is before anything wraps or shards it"


@pytest.fixture
def folder(tmp_path):
    import torch

    keep(tmp_path, torch)
    return tmp_path


@pytest.mark.parametrize(
    ("built", "told"),
    [
        ("return 3", "build() returned a int, not a torch.nn.Module"),
        ("return {}['a']", "the reference raised KeyError: 'a' (ref.py:6)"),
        (
            "return torch.nn.Linear(4, 3, bias=False)",
            "the weights do not load: the job has bias, and the reference's model has not",
        ),
        (
            "return torch.nn.Sequential(torch.nn.Linear(4, 3))",
            "the weights do not load: the job has bias, weight, and the reference's model has not",
        ),
        (
            "return torch.nn.Bilinear(4, 4, 3)",
            "parameter 'weight' has the shape (3, 4) in the job and (3, 4, 4) in the reference's model",
        ),
        (
            "return torch.nn.Linear(8, 3)",
            f"parameter 'weight' has the shape (3, 4) in the job and (3, 8) in the reference's model; {SPLIT}",
        ),
    ],
)
def test_a_model_that_is_another_one_is_refused(built, told, folder):
    assert refusal(folder, OBJECTIVE.replace(BUILD, built)) == told


def test_a_parameter_that_the_job_has_not_is_named(folder):
    source = OBJECTIVE.replace(
        BUILD, "layer = torch.nn.Linear(4, 3); layer.scale = torch.nn.Parameter(torch.ones(1)); return layer"
    )

    assert refusal(folder, source) == "the weights do not load: the reference's model has scale, and the job has not"


def test_parameters_that_fsdp_made_one_of_need_their_names(tmp_path):
    import torch

    keep(tmp_path, torch, parameters={"_flat_param": {"local": torch.zeros(15), "trained": True}})

    assert refusal(tmp_path) == (
        "the weights do not load: the job has _flat_param, and the reference's model has not: let FSDP keep the names, "
        "use_orig_params=True, for the audit"
    )


def test_what_the_job_does_not_train_may_be_absent(tmp_path):
    import torch

    keep(tmp_path, torch)
    kept = torch.load(tmp_path / "kept-rank00000-0-0.pt")
    kept["parameters"]["teacher.weight"] = {"local": torch.ones(2), "trained": False}
    torch.save(kept, tmp_path / "kept-rank00000-0-0.pt")

    assert refusal(tmp_path) == ""


def test_a_batch_norm_in_training_mode_is_refused_and_one_in_eval_mode_is_not(tmp_path):
    import torch

    source = OBJECTIVE.replace(
        BUILD, "layer = torch.nn.Linear(4, 3); layer.norm = torch.nn.BatchNorm1d(3, affine=False); return layer"
    )
    keep(tmp_path, torch)
    told = refusal(tmp_path, source)
    keep(tmp_path, torch, evaluating=["norm"])

    assert told == (
        "'norm' is a BatchNorm1d in training mode: it makes the loss of an example depend on the others of its batch, "
        "so no sum over batches is the loss of one process. Put it in eval mode for the audit"
    )
    assert refusal(tmp_path, source) == ""


def test_the_pickled_model_of_rank_0_serves_where_none_is_built(folder):
    import torch

    torch.save(torch.nn.Linear(4, 3), folder / "kept-model.pt")

    assert refusal(folder, UNBUILT) == ""


def test_a_model_that_was_not_called_is_told(folder):
    assert refusal(folder, UNBUILT) == f"no model was called on rank 0; {ADVICE}"


def test_a_model_that_could_not_be_pickled_is_told_with_the_cause(folder):
    (folder / "kept-model.txt").write_text("Net: cannot pickle 'module' object")

    assert refusal(folder, UNBUILT) == f"the model can't be pickled (Net: cannot pickle 'module' object); {ADVICE}"


def test_a_pickle_whose_class_is_the_scripts_own_is_told(folder):
    (folder / "kept-model.pt").write_bytes(b"no pickle")

    told = refusal(folder, UNBUILT)

    assert told.startswith("the model can't be made from its pickle (")
    assert told.endswith(f"); {ADVICE}")


def test_a_reference_that_cannot_be_imported_is_told_with_its_line(folder):
    assert refusal(folder, OBJECTIVE + "import nowhere.to_be_found\n") == (
        "the reference can't be imported: ModuleNotFoundError: No module named 'nowhere' (ref.py:10)"
    )
