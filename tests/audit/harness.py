"""Runs training scripts of `tests/jobs` fast, audits them, and compares the verdicts with what each case expects.

python tests/audit/harness.py --list
python tests/audit/harness.py --run ddp --seeds 3 --jobs 2     every case whose name contains "ddp"
python tests/audit/harness.py --check                          does each case train what it says?
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
JOBS = HERE.parent / "jobs"

sys.path.insert(0, str(JOBS.parent))
from jobs.expectations import CASES, Case, command, reference_command  # noqa: E402


@dataclass(frozen=True)
class JobResult:
    """How a job ended: exit codes by rank (None: killed, its time was up), seconds, and what it printed."""

    exit_codes: list[int | None]
    seconds: float
    output: str

    @property
    def ok(self) -> bool:
        """Every rank ended with exit code 0."""
        return all(code == 0 for code in self.exit_codes)


class JobServer:
    """A process that forks the ranks of one job at a time. Close it, or use it as a context.

    It imports torch, and `modules` from `folders` besides.
    """

    def __init__(self, folders: Sequence[Path] = (), modules: Sequence[str] = ()) -> None:
        folders = [REPOSITORY / "src", *folders]
        path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "job_server.py"), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
                "TRITON_INTERPRET": "1",
            },
        )
        self._outputs = tempfile.TemporaryDirectory(prefix="jobs-")
        self._lock = threading.Lock()
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the job server did not start"

    def run_job(
        self,
        script: str,
        args: Sequence[str],
        nproc: int | None,
        trace_dir: Path | str | None = None,
        *,
        timeout: float = 60.0,
        env: dict[str, str] | None = None,
    ) -> JobResult:
        """Run `script` (a name in tests/jobs, or a path) on `nproc` ranks; audited if there is a `trace_dir`.

        With `nproc=None` it is started once and not told of ranks, as without a launcher.
        """
        with self._lock:
            output_dir = Path(tempfile.mkdtemp(dir=self._outputs.name))
            request = {
                "script": str(JOBS / script),
                "args": list(args),
                "nproc": nproc,
                "trace_dir": str(trace_dir) if trace_dir else "",
                "run_id": uuid.uuid4().hex,
                "timeout": timeout,
                "env": env or {},
                "output_dir": str(output_dir),
            }
            answer = self._ask(request)
        texts = [(output_dir / f"rank{r}.txt").read_text(errors="replace") for r in range(nproc or 1)]
        return JobResult(answer["exit_codes"], answer["seconds"], "".join(texts))

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the job server died while it ran {request['script']}"
        return dict(json.loads(line))

    def close(self) -> None:
        """End the server; a job that still runs is killed by it first."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=90)
        self._process.stdout.close()
        self._outputs.cleanup()

    def __enter__(self) -> JobServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Outcome:
    """A case, run and judged."""

    case: Case
    seed: int
    outcome: str
    slugs: tuple[str, ...]
    sentence: str
    seconds: float
    reasons: tuple[str, ...] = ()

    @property
    def as_expected(self) -> bool:
        """The outcome is one of the case's, and what a wrong job is called is what was planted."""
        if self.outcome not in self.case.outcomes:
            return False
        if self.outcome != "wrong":
            return True
        named, expected = set(self.slugs), self.case.slugs
        if not expected:
            return not named
        return named <= set(expected) and (expected[0] in named if self.case.planted else bool(named))


def audit_case(server: JobServer, case: Case, seed: int = 0) -> Outcome:
    """Run a case under the audit and return its verdict beside what was expected."""
    from failuremap.audit import diagnose

    with tempfile.TemporaryDirectory(prefix="trace-") as trace_dir:
        result = server.run_job(case.script, command(case, seed), case.nproc, trace_dir, timeout=case.timeout)
        if not result.ok and "script failed" not in case.outcomes:
            return Outcome(case, seed, "script failed", (), result.output[-2000:], result.seconds)
        verdict = diagnose(Path(trace_dir), unit=case.unit, promise=case.promise)
    slugs = tuple(dict.fromkeys(c.slug for finding in verdict.findings for c in finding.candidates))
    return Outcome(case, seed, verdict.outcome, slugs, verdict.sentence, result.seconds, tuple(verdict.reasons))


def weights_differ(server: JobServer, case: Case, seed: int = 0) -> float:
    """How far the weights of a case are from those that one process trains on the same global batches.

    |W - W_ref| / |W_ref - W_0| over all weights: 0 is right, 1 is as far off as not training at all.
    """
    alone = tuple(reference_command(case, seed))
    reference = trained_weights(server, case.script, alone, 1, case.timeout)
    start = trained_weights(server, case.script, (*alone, "--lr", "0"), 1, case.timeout)
    own = trained_weights(server, case.script, tuple(command(case, seed)), case.nproc, case.timeout)
    return float((own - reference).norm() / (reference - start).norm())


@functools.cache
def trained_weights(server: JobServer, script: str, args: tuple[str, ...], nproc: int | None, timeout: float) -> Any:
    """All weights of a script at its end, one after another, float64; cases share what they are compared with."""
    import torch

    with tempfile.TemporaryDirectory(prefix="weights-") as folder:
        path = f"{folder}/weights.pt"
        result = server.run_job(script, [*args, "--save", path], nproc, timeout=timeout)
        assert result.ok, f"{script} {' '.join(args)}: exit codes {result.exit_codes}\n{result.output[-2000:]}"
        return torch.cat([w.double().flatten() for w in torch.load(path).values()])


@contextlib.contextmanager
def servers(count: int) -> Iterator[list[JobServer]]:
    """Start several servers, each of which runs one job at a time."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(JobServer()) for _ in range(count)]


def _sweep(names: list[str], seeds: int, jobs: int, check: bool) -> int:
    cases = [case for case in CASES if any(name in case.name for name in names or [""])]
    work = [(case, seed) for case in cases for seed in range(seeds)]
    failed = 0
    with servers(jobs) as pool, ThreadPoolExecutor(jobs) as threads:
        idle = list(pool)

        def one(item: tuple[Case, int]) -> tuple[bool, str]:
            server = idle.pop()
            try:
                return _check_line(server, *item) if check else _audit_line(server, *item)
            except AssertionError as problem:
                return False, f"{item[0].name}: {problem}"
            finally:
                idle.append(server)

        for good, line in threads.map(one, work):
            print("  " if good else "✗ ", line, sep="", flush=True)
            failed += not good
    print(f"{len(work) - failed} of {len(work)} as expected")
    return int(failed > 0)


def _audit_line(server: JobServer, case: Case, seed: int) -> tuple[bool, str]:
    got = audit_case(server, case, seed)
    named = ",".join(got.slugs)
    line = f"{case.name:38} {seed}  {'|'.join(case.outcomes):12} {got.outcome:12} {got.seconds:5.1f}s  {named}"
    return got.as_expected, line if got.outcome == "right" else f"{line}\n      {got.sentence}"


def _check_line(server: JobServer, case: Case, seed: int) -> tuple[bool, str]:
    if case.tolerance is None:
        return True, f"{case.name:38} {seed}  has no reference"
    distance = weights_differ(server, case, seed)
    near = distance < case.tolerance
    good = near if case.is_right else not near
    return good, f"{case.name:38} {seed}  {'|'.join(case.outcomes):12} {distance:.2e} from one process"


def main() -> int:
    """Parse the command line and sweep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the cases, one a line")
    parser.add_argument("--run", nargs="*", default=[], metavar="PART", help="cases whose name contains a PART")
    parser.add_argument("--check", action="store_true", help="compare trained weights with one process, no audit")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="jobs at the same time")
    options = parser.parse_args()
    if options.list:
        for case in CASES:
            expected = f"{'|'.join(case.outcomes)} {' '.join(case.slugs)}"
            print(f"{case.name:38} {case.nproc or '-'} x {case.script:22} {expected}")
        return 0
    sys.path.insert(0, str(REPOSITORY / "src"))
    return _sweep(options.run, options.seeds, options.jobs, options.check)


if __name__ == "__main__":
    raise SystemExit(main())
