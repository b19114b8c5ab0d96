"""What a record says of one stage: its script, what the script observed, and what comes of running it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from failuremap.catalogue.exchange.claim import Claim, claim_of
from failuremap.catalogue.exchange.scan import refusal
from failuremap.catalogue.exchange.statement import Seen, StageStatement
from failuremap.catalogue.records.digest import sha256_text
from failuremap.catalogue.run import Run, run

TIME_LIMIT_S = 10.0


def stage_claims(said: StageStatement, check_count: int) -> Iterator[Claim]:
    """Checks what is said of one stage."""
    where, script = f"verification.{said.stage}", f"implementations.{said.stage}"
    actual = sha256_text(said.source)
    wrong_hash = f"sha256={said.sha256!r}, but that of the source is {actual!r}" if actual != said.sha256 else ""
    yield claim_of(f"{script}.sha256", wrong_hash, "it is that of the source")
    refused = refusal(said.source)
    yield claim_of(f"{script}.source", refused, "it uses pure modules of the standard library only")
    count = len(said.observations)
    wrong_count = f"checks={check_count}, but there are {count}" if count != check_count else ""
    yield claim_of(f"{where}.observations", wrong_count, f"there are {count}, as checks={check_count} says")
    yield _outcomes(f"{where}.observations.passed", said.observations)
    yield from _endings(where, said)
    yield _rerun(f"{where}: re-run", said, refused)


def _outcomes(claim: str, observations: tuple[Seen, ...]) -> Claim:
    """Each check passed where its two values are equal."""
    for seen in observations:
        if seen.passed and seen.actual != seen.expected:
            shown = f"actual={json.dumps(seen.actual)}, expected={json.dumps(seen.expected)}"
            return claim_of(claim, f"check={seen.check!r} is said to have passed: {shown}", "")
    alike = [seen.check for seen in observations if not seen.passed and seen.actual == seen.expected]
    if alike:
        return Claim(
            claim, "cannot be checked", f"check={alike[0]!r} failed, but JSON shows both values alike; see the re-run"
        )
    return Claim(claim, "holds", "a check passed where its two values are equal, and nowhere else")


def _endings(where: str, said: StageStatement) -> Iterator[Claim]:
    """The verdict, the exit code and the output follow from the observations."""
    all_passed = all(seen.passed for seen in said.observations)
    verdict = "all checks passed" if all_passed else "not all checks passed"
    if said.passed is not None:
        wrong = f"passed={said.passed}, but {verdict}" if said.passed != all_passed else ""
        yield claim_of(f"{where}.passed", wrong, verdict)
    wrong = f"exit_code={said.exit_code}, but {verdict}" if said.exit_code != int(not all_passed) else ""
    yield claim_of(f"{where}.exit_code", wrong, f"{said.exit_code}, as {verdict}")
    if said.stdout is not None:
        wrong = "" if said.stdout == report(said.observations) else "it isn't the JSON report of the observations"
        yield claim_of(f"{where}.stdout", wrong, "it is the JSON report of the observations")
    must_pass = said.stage == "fixed"
    wrong = (
        f"{said.stage} must {'pass every check' if must_pass else 'fail a check'}" if all_passed != must_pass else ""
    )
    yield claim_of(where, wrong, "it passes every check" if must_pass else "it fails a check, as it should")


def report(observations: Iterable[Seen]) -> str:
    """Returns what a script prints that observes this."""
    rows = [_row(seen) for seen in observations]
    passed = all(row["passed"] for row in rows)
    return json.dumps({"observations": rows, "passed": passed}, ensure_ascii=False) + "\n"


def _row(seen: Seen) -> dict[str, Any]:
    return {"check": seen.check, "actual": seen.actual, "expected": seen.expected, "passed": seen.passed}


def _rerun(claim: str, said: StageStatement, refused: str) -> Claim:
    """The script, run here, gives what is said."""
    if refused:
        return Claim(claim, "cannot be checked", f"it was not run: {refused}")
    seen = run(said.source, time_limit_s=TIME_LIMIT_S)
    problem = seen.stopped or _difference(said, seen)
    return claim_of(claim, problem, "the script, run here, gives the same observations and exit code")


def _difference(said: StageStatement, seen: Run) -> str:
    """Says what a run gave that the record doesn't say; "" where they agree."""
    for was, now in zip(map(_row, said.observations), map(_row, seen.observations), strict=False):
        if json.dumps(was) != json.dumps(now):
            return f"here it gives {json.dumps(now, ensure_ascii=False)[:200]}"
    if seen.stdout != report(said.observations):
        printed = seen.stdout.strip() or seen.stderr.strip() or "nothing"
        return f"here it prints {printed.splitlines()[-1][-200:]!r}"
    if seen.exit_code != said.exit_code:
        return f"here its exit code is {seen.exit_code}"
    return "" if said.stderr in {None, seen.stderr} else f"here it leaves stderr={seen.stderr[-200:]!r}"
