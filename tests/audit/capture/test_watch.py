"""`failuremap.watch`: one line in a script that people start themselves; the traces are those of an audit."""

from __future__ import annotations

import subprocess
import sys

import pytest

import failuremap
from audit.capture.watched import run
from failuremap.audit import diagnose
from failuremap.audit.trace import read_folder
from failuremap.errors import InvalidArgument

pytestmark = pytest.mark.torch

WATCHED = """
import os, failuremap
watching = failuremap.watch(OUT, every=EVERY)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
step = torch.optim.SGD(model.parameters(), lr=0.1)
def window(sizes):
    for size in sizes:
        loss = F.cross_entropy(model(torch.randn(size, 8)), torch.zeros(size, dtype=torch.long))
        (loss / len(sizes)).backward()
    step.step(); step.zero_grad()
"""


def watched(out, every=1):
    return WATCHED.replace("OUT", repr(str(out))).replace("EVERY", str(every))


def test_a_watched_process_leaves_a_trace_that_diagnose_judges(job_server, tmp_path):
    job = watched(tmp_path / "out") + "for i in range(3): window([3, 5])\nwatching.close()"

    result = run(job_server, tmp_path, job, audited=False)

    assert result.ok, result.output
    assert diagnose(tmp_path / "out").sentence.endswith("weighs 1.67 times an example in micro-batch 1.")


def test_the_verdict_is_at_hand_in_the_process_itself(job_server, tmp_path):
    job = watched(tmp_path / "out") + (
        "for i in range(3): window([4, 4])\nwatching.close()\nprint(watching.verdict().outcome, watching.folder)"
    )

    result = run(job_server, tmp_path, job, audited=False)

    assert result.output.strip().endswith(f"right {tmp_path / 'out'}"), result.output


@pytest.mark.slow
def test_ranks_that_the_script_starts_itself_write_one_run(job_server, tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text(
        f"""
import failuremap
failuremap.watch({str(tmp_path / "out")!r}, every=1)
import torch, torch.distributed as dist, torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

def work(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{{port}}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    step = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(3):
        size = 3 + 4 * rank
        F.cross_entropy(model(torch.randn(size, 8)), torch.zeros(size, dtype=torch.long)).backward()
        step.step(); step.zero_grad()
    dist.destroy_process_group()

if __name__ == "__main__":
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0)); port = probe.getsockname()[1]
    torch.multiprocessing.start_processes(work, args=(port,), nprocs=2, start_method="METHOD")
"""
    )
    forked = script.read_text().replace("METHOD", "fork")
    script.write_text(forked)

    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)

    assert result.returncode == 0, result.stderr
    assert [trace.rank for trace in read_folder(tmp_path / "out")] == [0, 1]
    assert diagnose(tmp_path / "out").sentence == "An example on rank 0 weighs 2.33 times an example on rank 1."


def test_a_second_run_into_one_folder_goes_beside_the_first(job_server, tmp_path):
    job = watched(tmp_path / "out") + "window([4, 4])\nwatching.close()"

    first, second = (run(job_server, tmp_path, job, audited=False) for _ in range(2))

    assert (first.ok, first.output) == (True, "")
    assert second.output == (
        f"failuremap: '{tmp_path / 'out'}' holds a trace of rank 0 already; this run's is in "
        f"'{tmp_path / 'out' / 'run2'}'\n"
    )
    assert diagnose(tmp_path / "out").outcome == diagnose(tmp_path / "out" / "run2").outcome == "right"


def test_two_audits_of_one_process_are_one_and_a_line_says_so(job_server, tmp_path):
    job = watched(tmp_path / "out") + "for i in range(3): window([4, 4])"

    result = run(job_server, tmp_path, job, audited=True)

    trace = tmp_path / "trace"
    assert result.output == (
        f"failuremap: an audit of this process runs already, with its trace in '{trace}'; "
        "failuremap.watch starts no second one\n"
    )
    assert diagnose(trace).outcome == "right"
    assert not list((tmp_path / "out").glob("*.trace"))


def test_a_model_that_is_there_already_is_watched_by_its_names(job_server, tmp_path):
    job = f"""
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
step = torch.optim.SGD(model.parameters(), lr=0.1)
import failuremap
watching = failuremap.watch({str(tmp_path / "out")!r}, model=model)
for i in range(2):
    F.cross_entropy(model(torch.randn(4, 8)), torch.zeros(4, dtype=torch.long)).backward()
    step.step(); step.zero_grad()
watching.close()
"""
    result = run(job_server, tmp_path, job, audited=False)

    assert result.ok, result.output
    (trace,) = read_folder(tmp_path / "out")
    names = [record.fields["name"] for record in trace.records() if record.kind == "parameter"]
    assert sorted(names) == ["0.bias", "0.weight", "1.bias", "1.weight"]


def test_workers_of_a_data_loader_leave_no_trace(job_server, tmp_path):
    job = watched(tmp_path / "out") + (
        "from torch.utils.data import DataLoader\n"
        "for i, batch in enumerate(DataLoader(range(8), batch_size=4, num_workers=2)): window([4])\n"
        "watching.close()"
    )

    result = run(job_server, tmp_path, job, audited=False)

    assert result.ok, result.output
    assert [trace.rank for trace in read_folder(tmp_path / "out")] == [0]
    assert diagnose(tmp_path / "out").outcome == "right"


@pytest.mark.slow
def test_the_first_wrong_step_is_in_the_log_and_stops_the_job_that_is_to_stop(job_server, tmp_path):
    job = watched(tmp_path / "out").replace("every=1", "every=1, stop_on_wrong=True, log=print") + (
        "import time\nfor i in range(600): window([3, 5]); time.sleep(0.1)\nprint('never stopped')"
    )

    result = run(job_server, tmp_path, job, audited=False)

    said = (
        "step 1 is wrong: An example in micro-batch 0 weighs 1.67 times an example in micro-batch 1. "
        f"The whole verdict:  failuremap diagnose {tmp_path / 'out'}\n"
    )
    assert not result.ok
    assert said in result.output
    assert f"JobStopped: the job was to stop at the first wrong step: {said}" in result.output
    assert "failuremap/heaviest_over_lightest 1.66" in result.output
    assert "never stopped" not in result.output


@pytest.mark.slow
def test_a_right_job_is_not_stopped_and_not_warned_of(job_server, tmp_path):
    job = watched(tmp_path / "out").replace("every=1", "every=1, stop_on_wrong=True") + (
        "import time\nfor i in range(80): window([5, 5]); time.sleep(0.1)\nprint('trained')"
    )

    result = run(job_server, tmp_path, job, audited=False)

    assert (result.ok, result.output) == (True, "trained\n")
    assert (tmp_path / "out" / "live.jsonl").read_text().count("\n") > 1


def test_every_below_one_is_refused(tmp_path):
    with pytest.raises(InvalidArgument) as refused:
        failuremap.watch(tmp_path, every=0)

    assert str(refused.value) == "every=0: 1 or more; 1 reads all parameters at every optimizer step."


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(InvalidArgument) as refused:
        failuremap.watch(tmp_path / "file" / "out")

    assert str(refused.value) == (
        f"out={str(tmp_path / 'file' / 'out')!r} can't be written: Not a directory. "
        "Name a folder that you can write to."
    )


def test_a_bare_import_of_watch_brings_no_torch():
    code = "import sys, failuremap; failuremap.watch; print('torch' in sys.modules)"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed == "False\n"
