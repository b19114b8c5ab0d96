"""What an audit says of each mechanism's training script: the verdicts as they were recorded, and how to record them.

python -m failuremap.site.audits [SLUG ...]      records anew, all of them where none is named; needs PyTorch
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from failuremap.audit.model import Verdict
from failuremap.catalogue import live, mechanisms

_RECORDED = Path(__file__).parent / "recorded"
_SCRIPTS = Path(live.__file__).parent


@cache
def recorded_audit(slug: str) -> Verdict | None:
    """Returns the recorded verdict on the training script that has a mechanism; None where it has no such script.

    It holds no repair: that is the member tier's.

    Example:
        >>> recorded_audit("replica-means-ignore-counts").sentence
        'A token on rank 0 weighs 2.00 times a token on rank 1.'
    """
    path = _RECORDED / f"{slug}.json"
    return Verdict.model_validate_json(path.read_text(encoding="utf-8")) if path.exists() else None


def audit_command(slug: str) -> list[str]:
    """Returns the command line that a training script's docstring names: it audits the script.

    Example:
        >>> " ".join(audit_command("replica-means-ignore-counts"))
        'failuremap audit --nproc 2 -- replica_means_ignore_counts.py'
    """
    text = (_SCRIPTS / f"{slug.replace('-', '_')}.py").read_text(encoding="utf-8")
    found = re.search(r"^(failuremap audit .* -- \S+\.py)$", text, re.MULTILINE)
    assert found, f"{slug}: the docstring of the script shows no audit command"
    return shlex.split(found[1])


def record(slugs: Sequence[str] = ()) -> None:
    """Audits the training scripts of these mechanisms, of all where none is named, and writes the verdicts."""
    scripts = {path.stem.replace("_", "-") for path in _SCRIPTS.glob("[!_]*.py")}
    for slug in slugs or [name for name in mechanisms() if name in scripts]:
        program, verb, *rest = audit_command(slug)
        command = [str(Path(sys.executable).with_name(program)), verb, "--json", "-", *rest]
        run = subprocess.run(command, cwd=_SCRIPTS, capture_output=True, text=True, check=False)
        verdict = _without_repairs(Verdict.model_validate_json(run.stdout))
        (_RECORDED / f"{slug}.json").write_text(verdict.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _without_repairs(verdict: Verdict) -> Verdict:
    """The repair is the member tier's, and these verdicts stand on open pages."""
    found = [finding.model_copy(update={"repair": ""}) for finding in verdict.findings]
    return verdict.model_copy(update={"findings": found})


if __name__ == "__main__":
    record(sys.argv[1:])
