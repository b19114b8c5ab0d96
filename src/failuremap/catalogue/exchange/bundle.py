"""One case as a bundle: its scripts, its record, its contract, and the one command that runs them again."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from failuremap.catalogue.exchange.archive import MAX_MEMBER_BYTES, SUMS, check_sums, pack, sums_text, unpack
from failuremap.catalogue.exchange.intake import read_bytes
from failuremap.catalogue.exchange.tiers import TIERS, Tier, canary_line
from failuremap.catalogue.mechanism import STAGES
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.records.read import case_from_json
from failuremap.errors import RecordError

MAX_BUNDLE_BYTES = 4 * MAX_MEMBER_BYTES
_ZIP = b"PK"
_NAMES = {"README.md", "LICENSE", "case.json", "contract.md", "live.py", SUMS, *(f"{stage}.py" for stage in STAGES)}

_README = """# {id}: {title}

{abstract}

Run the scripts again, with nothing but Python and a shell:

```sh
sha256sum --check SHA256SUMS && for stage in {stages}; do python3 -I "$stage.py"; echo "$stage: exit code $?"; done
```

{expected} `case.json` records what they print; `contract.md` says what `solve` should do.{live}

{canary}
"""
_LICENSE = """Written for the Failure Map and dedicated to the public domain: CC0-1.0,
https://creativecommons.org/publicdomain/zero/1.0/
"""
_LIVE = (
    " `live.py` is a training script that has the fault, and with `--fixed` the repair; it needs PyTorch, and its "
    "first lines say how it is audited."
)


def bundle(case: Case, tier: Tier) -> bytes:
    """Returns the zip of a case, given in the form that its tier may read."""
    files = {name: text.encode() for name, text in _files(case, tier).items()}
    files[SUMS] = sums_text(files, canary_line(tier)).encode()
    return pack(files, case.id, canary_line(tier))


def _files(case: Case, tier: Tier) -> dict[str, str]:
    scripts = {name: script.source for name, script in case.implementations if script}
    # The twin's repaired half is the repair.
    live = live_twin(case.family) if case.is_member_form else ""
    readme = _README.format(
        id=case.id,
        title=case.title,
        abstract=case.abstract,
        stages=" ".join(scripts),
        expected=_expected(case.is_member_form),
        live=_LIVE if live else "",
        canary=canary_line(tier),
    )
    texts = {
        "README.md": readme,
        "LICENSE": _LICENSE,
        "case.json": case.to_json(),
        "contract.md": contract_page(case, tier),
    }
    return texts | {f"{name}.py": source for name, source in scripts.items()} | ({"live.py": live} if live else {})


def _expected(has_repair: bool) -> str:
    repaired = ", and `fixed.py` with 0" if has_repair else ""
    return f"`broken.py` and `attempt.py` exit with 1{repaired}: 1 says that a check fails, 0 that all pass."


def contract_page(case: Case, tier: Tier) -> str:
    """Writes a case's contract as Markdown."""
    contract = case.contract
    clauses = [f"* **{clause.id}** ({clause.kind}): {clause.text}" for clause in contract.clauses]
    parts = [f"# Contract of {case.id}", f"`solve({contract.signature})`", contract.text]
    parts += ["## Input", contract.domain] if contract.domain else []
    parts += ["## Clauses", "\n".join(clauses)] if clauses else []
    return "\n\n".join([*parts, canary_line(tier)]) + "\n"


def live_twin(family: str) -> str:
    """Returns the training script that has this fault for real; "" where there is none."""
    path = resources.files("failuremap.catalogue.live") / f"{family.replace('-', '_')}.py"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def is_bundle(path: Path) -> bool:
    """True where a file begins as a zip does."""
    try:
        if not path.is_file():  # to open a pipe would wait for its writer
            return False
        with open(path, "rb") as file:
            return file.read(len(_ZIP)) == _ZIP
    except OSError:
        return False


def verify_bundle(path: Path) -> Case:
    """Reads a bundle, holds it to its sums, and its scripts to its record; returns the case.

    Raises:
        RecordError: It is no bundle, or contradicts itself; the message names the member.
    """
    return read_bundle(read_bytes(path, MAX_BUNDLE_BYTES), path.name)


def read_bundle(content: bytes, record: str) -> Case:
    """Reads the bytes of a bundle; otherwise as `verify_bundle`."""
    files = unpack(content, record)
    check_sums(files, record)
    if "case.json" not in files:
        raise RecordError(f"record={record!r}: member='case.json' is missing.")
    strange = sorted(set(files) - _NAMES)
    if strange:
        raise RecordError(f"record={record!r}: member={strange[0]!r} is none that a bundle has: {_listed(_NAMES)}.")
    case = case_from_json(files["case.json"].decode("utf-8", "replace"), f"{record}: case.json")
    for stage, script in case.implementations:
        member = files.get(f"{stage}.py")
        if (script.source.encode() if script else None) != member:
            raise RecordError(f"record={record!r}: member='{stage}.py' is not the script of the record.")
    return case


def unlike_ours(content: bytes, case: Case) -> str:
    """Names what no record says and this version would write otherwise in the bundle of a case; "" where nothing.

    Args:
        content: The bundle, as `read_bundle` has read it.
        case: The case that was in it.
    """
    ours = [bundle(case, tier) for tier in TIERS]
    if content in ours:
        return ""
    files, candidates = unpack(content, case.id), [unpack(one, case.id) for one in ours]
    texts = sorted(set(files) - {SUMS})
    return _listed(name for name in texts if all(files[name] != other.get(name) for other in candidates)) or "the zip"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
