"""What goes wrong with the audit, or around it, does nothing to the job, and is never called right."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from audit.harness import HERE, JobResult, JobServer
from audit.injected import FAULTS, PLACES
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict
from failuremap.errors import TraceError

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RIGHT = "Every example weighs the same: the update is the mean over all examples."
FAILED = "the audit itself failed to see a part of the job"
NO_END = "rank {} did not come to its end (killed, os._exit, or the disk was full)"
UNSEEN = (
    "no gradient of the stepped parameters came through autograd: it was made by hand or by torch.func, or the audit's "
    "hooks on the parameters were removed (5 of 8 steps)"
)
# what a verdict has to say; where nothing is missing, that all is right
SAID = {
    **{f"broken-{name}": FAILED for name in PLACES},
    "broken-loss": "the loss was not seen",
    "broken-loss-mark": "the loss was not seen",
    "broken-record": NO_END.format(0),
    "broken-end": NO_END.format(1),
    "nothing": RIGHT,
    "disk-full": "the trace of rank 0 is torn",
    "disk-full-for-a-while": "the trace of rank 1 is torn",
    "folder-deleted": "does not exist; give the folder that `failuremap audit --trace DIR` wrote",
    "folder-never-there": "does not exist; give the folder that `failuremap audit --trace DIR` wrote",
    "trace-deleted": "rank 1 left no trace",
    "trace-emptied": "not a trace",
    "rank-killed": NO_END.format(1),
    "rank-leaves": NO_END.format(0),
    "rank-slow": RIGHT,
    "clock-jumps": RIGHT,
    "hooks-cleared": UNSEEN,
    "hooks-cleared-of-one": "the update of 1 of 4 parameters (0.weight) is no combination of the gradients",
    "optimizer-hooks-cleared": "the hooks of all optimizers were removed: later steps went unseen",
    "parameter-replaced": RIGHT,
    "parameter-registered-again": RIGHT,
    "layer-replaced": RIGHT,
    "dtype-changed": RIGHT,
    "data-exchanged": RIGHT,
    "loader-workers": RIGHT,
}


def run(server: JobServer, name: str, trace: Path | None) -> JobResult:
    """Run the job with a fault."""
    if trace is not None:
        trace.mkdir(exist_ok=True)
    return server.run_job(str(HERE / "injected.py"), [name], 2, trace)


def verdict_of(trace: Path) -> Verdict:
    """What the audit says of a folder; one that cannot be read is not measured, as the command has it."""
    try:
        return diagnose(trace)
    except TraceError as error:
        return Verdict(outcome="not measured", sentence="The trace of the run can't be read.", reasons=[str(error)])


def weights(result: JobResult) -> list[str]:
    """The digests that the ranks printed."""
    return [line for line in result.output.splitlines() if line.startswith("weights ")]


@pytest.fixture(scope="module")
def traces(job_server: JobServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of the job without a fault."""
    folder = tmp_path_factory.mktemp("sound") / "trace"
    assert run(job_server, "nothing", folder).ok
    return folder


@pytest.mark.parametrize("name", FAULTS)
def test_the_job_ends_as_without_the_audit_and_the_verdict_says_what_is_missing(
    job_server: JobServer, tmp_path: Path, name: str
) -> None:
    plain = run(job_server, name, None)

    audited = run(job_server, name, tmp_path / "trace")

    assert plain.ok == (name != "rank-killed")
    assert (weights(audited), audited.ok) == (weights(plain), plain.ok), audited.output[-3000:]
    verdict = verdict_of(tmp_path / "trace")
    if SAID[name] == RIGHT:
        assert (verdict.outcome, verdict.sentence) == ("right", RIGHT)
    else:
        assert verdict.outcome in {"cannot tell", "not measured"}, verdict.sentence
        assert SAID[name] in "\n".join(verdict.reasons)


def damaged(data: bytes) -> Iterator[bytes]:
    """A file cut off at places, and with a bit of it flipped."""
    chosen = random.Random(0)
    for at in [0, 5, *chosen.sample(range(9, len(data)), 20)]:
        yield data[:at]
    for at in [0, 12, *chosen.sample(range(9, len(data)), 40)]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << chosen.randrange(8)
        yield bytes(flipped)


def test_a_trace_that_is_cut_off_or_changed_by_a_bit_is_told(traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    shutil.copytree(traces, folder)
    (path,) = folder.glob("rank00001*")
    sound = path.read_bytes()
    assert verdict_of(folder).outcome == "right"

    for data in damaged(sound):
        path.write_bytes(data)
        verdict = verdict_of(folder)
        assert verdict.outcome in {"cannot tell", "not measured"}, verdict.sentence
        assert "rank 1" in "\n".join(verdict.reasons) or path.name in verdict.reasons[0]


def test_two_audits_in_one_folder_are_told(job_server: JobServer, tmp_path: Path) -> None:
    with JobServer() as other, ThreadPoolExecutor() as both:
        results = list(both.map(lambda server: run(server, "rank-slow", tmp_path / "trace"), (job_server, other)))

    assert [result.ok for result in results] == [True, True]
    assert weights(results[0]) == weights(results[1])
    assert verdict_of(tmp_path / "trace").outcome == "not measured"
    assert "runs" in verdict_of(tmp_path / "trace").reasons[0]


def test_two_audits_at_once_each_see_their_own_job(job_server: JobServer, tmp_path: Path) -> None:
    with JobServer() as other, ThreadPoolExecutor() as both:
        servers = {"rank-slow": job_server, "hooks-cleared": other}
        list(both.map(lambda name: run(servers[name], name, tmp_path / name), servers))

    assert [verdict_of(tmp_path / name).outcome for name in servers] == ["right", "not measured"]
