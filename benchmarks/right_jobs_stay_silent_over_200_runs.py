"""No right job is called wrong: more than 200 runs over everything that the audit reads, with seeds drawn anew.

Each right script of the tests is run on real processes and audited: by hand and with DDP, sharded, scaled, split over
ranks, under frameworks, and the repaired forms of public reports. "Cannot tell" and "not measured" are no alarms and
are counted apart. A run draws its own seed, which it prints; a seed as an argument runs the same again.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.runs import verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from audit.harness import JobServer, audit_case
from jobs.expectations import CASES, Case
from jobs.frameworks.cases import CASES as UNDER_FRAMEWORKS
from jobs.frameworks.cases import FRAMEWORKS, Framework
from jobs.reports.table import REPORTS
from jobs.split.cases import CASES as SPLIT

LEAST_RUNS = 200
SEEDS = 10_000
PLAIN = Framework((), ())
AT_ONCE = 2


def right_jobs() -> Iterator[tuple[Framework, list[Case]]]:
    """Yield the right jobs, those that one server runs together."""
    cases = [*CASES, *(case for each in SPLIT.values() for case in each), *(report.cases[1] for report in REPORTS)]
    chosen = [case for case in cases if case.is_right]
    for start in range(AT_ONCE):
        yield PLAIN, chosen[start::AT_ONCE]
    for name, under in UNDER_FRAMEWORKS.items():
        framework = FRAMEWORKS[name]
        if all((folder / ".installed").exists() for folder in framework.folders):
            yield framework, [case for case in under if case.is_right]
        else:
            print(f"{name} is not installed: make frameworks", flush=True)


def run(part: tuple[Framework, list[Case]], seed: int, seen: Counter[str], lock: threading.Lock) -> None:
    """Run some jobs one after another and count what was said of them."""
    framework, cases = part
    with JobServer(framework.folders, framework.modules) as server:
        for case in cases:
            got = audit_case(server, case, seed)
            with lock:
                seen[got.outcome] += 1
                if got.outcome == "wrong" or not got.as_expected:
                    print(f"  {case.name}: {got.outcome}: {got.sentence}", flush=True)


def main() -> int:
    """Print the figures; the return value is the exit code."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else secrets.randbelow(SEEDS)
    print(f"seed {seed}", flush=True)
    seen: Counter[str] = Counter()
    lock = threading.Lock()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(run, part, seed, seen, lock) for part in right_jobs()]:
            done.result()
    print(f"{seen.total()} runs: {', '.join(f'{count} {outcome}' for outcome, count in seen.most_common())}")
    assert seen.total() >= LEAST_RUNS, f"{seen.total()} runs are too few"
    return verdict("right jobs called wrong", seen["wrong"], 0)


if __name__ == "__main__":
    sys.exit(main())
