"""The live twins: the audit names each mechanism in a real job, and finds the repaired job right."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

import failuremap.catalogue.live
from audit.harness import JobServer
from failuremap.catalogue import mechanisms
from failuremap.site.audits import recorded_audit
from failuremap.site.search import normal

pytestmark = pytest.mark.torch

FILES = {
    path.stem.replace("_", "-"): path
    for path in sorted(Path(failuremap.catalogue.live.__file__).parent.glob("[!_]*.py"))
}


@dataclass(frozen=True)
class Seen:
    """What an audit says of one job."""

    outcome: str
    slugs: frozenset[str]
    sentence: str


def audited(server: JobServer, script: Path, tmp_path: Path, *args: str) -> Seen:
    """Audit a twin as its docstring says."""
    from failuremap.audit import diagnose

    command = re.search(r"^failuremap audit (.*) -- ", script.read_text(encoding="utf-8"), re.MULTILINE)
    assert command, f"{script.name}: the docstring shows no audit command"
    given = shlex.split(command[1])
    options = dict(zip(given[::2], given[1::2], strict=True))
    nproc = int(options.pop("--nproc"))
    trace = tmp_path / "trace"
    trace.mkdir()
    result = server.run_job(str(script), args, nproc, trace)
    assert result.ok, f"exit codes {result.exit_codes}\n{result.output[-2000:]}"
    verdict = diagnose(trace, unit=options.pop("--unit", None), promise=options.pop("--promise", "mean"))
    assert not options, f"{script.name}: the test knows no {options}"
    slugs = frozenset(one.slug for finding in verdict.findings for one in finding.candidates)
    return Seen(verdict.outcome, slugs, verdict.sentence)


@pytest.mark.parametrize("slug", FILES)
def test_the_audit_names_the_mechanism(job_server: JobServer, tmp_path: Path, slug: str) -> None:
    seen = audited(job_server, FILES[slug], tmp_path)

    if mechanisms()[slug].audit_blind:
        assert slug not in seen.slugs, f"{slug} is named after all: audit_blind can go"
        assert seen.outcome != "wrong" or not seen.slugs, f"another is named: {seen}"
    else:
        assert seen.outcome == "wrong", seen
        assert slug in seen.slugs, seen
    recorded = recorded_audit(slug)
    assert recorded is not None, f"record it: python -m failuremap.site.audits {slug}"
    assert (recorded.outcome, normal(recorded.sentence)) == (seen.outcome, normal(seen.sentence))


@pytest.mark.parametrize("slug", FILES)
def test_the_repaired_job_is_right(job_server: JobServer, tmp_path: Path, slug: str) -> None:
    seen = audited(job_server, FILES[slug], tmp_path, "--fixed")

    assert seen.outcome == "right", seen


def test_each_twin_is_of_a_mechanism() -> None:
    assert set(FILES) - set(mechanisms()) == set()
