"""Windows are read in full or in part: alike on every rank, a few parameters always, and the cheap things always."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(6)])
step = torch.optim.SGD(model.parameters(), lr=0.1)
def back(size=4):
    F.cross_entropy(model(torch.randn(size, 8)), torch.zeros(size, dtype=torch.long)).backward()
def window(micro_batches=1):
    for _ in range(micro_batches):
        back()
    step.step(); step.zero_grad()
"""
SAMPLED = {"FAILUREMAP_EVERY": "64"}


def sampling(every=64):
    from failuremap.audit.capture.sampling import Sampling

    return Sampling(every)


def read_in_full(every, windows):
    """The numbers of the windows that are read in full."""
    one, found = sampling(every), []
    for window in range(windows):
        one.begin(window)
        found += [] if one.in_part else [window]
    return found


def parameter(id, size=64):
    """What choosing looks at of a parameter."""
    return SimpleNamespace(
        id=id, chosen=False, sparse=False, sketch=SimpleNamespace(size=size, row_count=min(size, 128))
    )


def test_the_first_windows_are_read_in_full_then_two_in_a_row_of_every_so_many():
    assert read_in_full(64, 200) == [*range(8), 64, 65, 128, 129, 192, 193]


@pytest.mark.parametrize("every", [1, 2])
def test_every_window_is_read_in_full_where_that_is_asked(every):
    assert read_in_full(every, 100) == list(range(100))


def test_a_restart_reads_as_many_windows_in_full_as_the_start_and_not_for_ever():
    one, found = sampling(10**6), []
    for window in range(400):
        one.begin(window)
        found += [] if one.in_part else [window]
        if window >= 20 and one.in_part:
            one.restart(new=False)

    assert found[8:10] == [21, 22]
    assert len(found) == 8 + 8 * 8


def test_what_is_chosen_is_small_and_comes_from_all_over_the_model():
    one = sampling()
    model = [parameter(id, 10**6 if id % 2 else 512) for id in range(40)]

    one.choose(0, model)

    chosen = [p.id for p in model if p.chosen]
    assert chosen == [0, 10, 20, 30]


def test_of_large_parameters_the_smallest_are_chosen():
    one = sampling()
    model = [parameter(id, 10**6 + (7 * id) % 5) for id in range(5)]

    one.choose(0, model)

    assert sum(p.chosen for p in model) == 4
    assert max(model, key=lambda p: p.sketch.size).chosen is False


def test_what_is_chosen_stays_and_what_is_no_longer_stepped_on_is_replaced():
    one = sampling()
    model = [parameter(id) for id in range(12)]
    one.choose(0, model)
    before = {p.id for p in model if p.chosen}
    frozen = min(before)

    one.choose(0, [p for p in model if p.id != frozen])

    after = {p.id for p in model if p.chosen}
    assert len(after) == len(before) == 4
    assert before - after == {frozen}


def test_many_optimizers_share_one_budget():
    one = sampling()
    for number in range(50):
        one.choose(number, [parameter(number)])

    assert sum(len(one.chosen(number)) for number in range(50)) == 16


def test_a_window_in_part_holds_few_parameters_and_all_losses(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "for i in range(12): window(2)", env=SAMPLED)

    steps = seen.of("step")
    assert [len(step.fields["parameters"]) for step in steps] == [12] * 8 + [4] * 4
    assert [step.fields.get("in_part", False) for step in steps] == [False] * 8 + [True] * 4
    assert [len(passed.fields["losses"]) for passed in seen.of("backward")] == [1] * 24
    assert seen.errors == []


def test_a_window_in_part_takes_a_tenth_of_the_room(job_server, tmp_path):
    wide = MODEL.replace("(8, 8)", "(64, 64)").replace("(size, 8)", "(size, 64)").replace("range(6)", "range(60)")
    seen = watch(job_server, tmp_path, wide + "for i in range(10): window()", env=SAMPLED)

    full, part = (step.payload.nbytes for step in (seen.of("step")[1], seen.of("step")[-1]))
    assert part * 10 < full


def test_an_optimizer_that_comes_later_is_read_in_full_from_its_second_step_on(job_server, tmp_path):
    later = """
for i in range(12): window()
head = torch.nn.Linear(8, 3); other = torch.optim.SGD(head.parameters(), lr=0.1)
for i in range(12):
    F.cross_entropy(head(model(torch.randn(4, 8))), torch.zeros(4, dtype=torch.long)).backward()
    step.step(); other.step(); step.zero_grad(); other.zero_grad()
"""
    seen = watch(job_server, tmp_path, MODEL + later, env=SAMPLED)

    heads = [s.fields for s in seen.of("step") if s.fields["optimizer"] == 1]
    assert [len(s["parameters"]) for s in heads[:9]] == [0, *[2] * 8]
    assert seen.errors == []


def test_a_parameter_that_is_unfrozen_is_read_in_full_soon(job_server, tmp_path):
    frozen = """
model[0].requires_grad_(False)
for i in range(12): window()
model[0].requires_grad_(True)
for i in range(4): window()
"""
    seen = watch(job_server, tmp_path, MODEL + frozen, env=SAMPLED)

    assert [len(step.fields["parameters"]) for step in seen.of("step")] == [*[10] * 8, *[4] * 5, *[12] * 3]


def test_a_window_that_passes_by_all_that_is_read_says_so(job_server, tmp_path):
    aside = """
extra = torch.nn.Parameter(torch.zeros(8)); step.add_param_group({"params": [extra]})
for i in range(8): back(); (extra * 2).sum().backward(); step.step(); step.zero_grad()
chosen = [p for p in model.parameters()]
for i in range(2):
    back(); (model[2].weight.new_ones(8) * extra).sum().backward(); step.step(); step.zero_grad()
"""
    seen = watch(job_server, tmp_path, MODEL + aside, env=SAMPLED)

    last = seen.of("step")[-1].fields
    read = {seen.names[id] for id in last["parameters"]}
    assert last["unread"] == (0 if any("extra" in name or name.startswith("parameter") for name in read) else 1)


def test_trained_weights_are_the_same_sampled_and_not(job_server, tmp_path):
    told = (
        MODEL + "for i in range(20): window(3)\nprint(sum(p.double().sum().item() for p in model.parameters()).hex())"
    )
    plain, sampled = tmp_path / "plain", tmp_path / "sampled"
    from audit.capture.watched import run

    for folder in (plain, sampled):
        folder.mkdir()
    first = run(job_server, plain, told, audited=False).output
    second = run(job_server, sampled, told, env=SAMPLED).output

    assert first == second != ""
