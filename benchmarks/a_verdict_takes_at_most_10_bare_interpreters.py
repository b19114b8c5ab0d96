"""One verdict takes at most 10 times what starting a bare interpreter takes, box and all fixtures included.

Bare is `python -I -S -c pass`. Both are measured in processor time, of this process, of its children and of what runs
in the box (its outer process twice, as a child and as a part of the box): other work on the machine makes that a
little longer, and what a clock shows many times. The two are taken in turns, each family several times, of which the
least counts; the bar is for the family in the middle, and the one that takes longest is named. Slugs of families as
arguments measure these alone.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

from failuremap.catalogue import mechanisms
from failuremap.score import judge
from failuremap.score.box import Box
from failuremap.score.box.cgroup import Cgroup
from failuremap.score.box.usage import measure
from failuremap.score.forms import candidate_of
from support.runs import verdict

BAR = 10.0
TURNS = 5
BARE_PER_TURN = 3

in_boxes_s = [0.0]


def count_boxes() -> None:
    """Have each box add what ran in it since its start; a box is ended in a way that keeps it from its parent's sum."""
    close_group, close_box = Cgroup.close, Box.close

    def of_group(group: Cgroup) -> None:
        in_boxes_s[0] += group.cpu_s() if group.folders[0].exists() else 0.0
        close_group(group)

    def of_box(box: Box) -> None:
        in_boxes_s[0] += measure(box.pid)[0] if box.level == "box-2" else 0.0
        close_box(box)

    Cgroup.close, Box.close = of_group, of_box  # type: ignore[method-assign]


def used_s() -> float:
    """Return the processor time of this process, of children that have ended and of boxes that are closed."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent) + in_boxes_s[0]


def seconds(work: Callable[[], object]) -> float:
    """Do something and return the processor time that it takes."""
    before = used_s()
    work()
    return used_s() - before


def bare() -> None:
    """Start a bare interpreter."""
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)


def accepted(slug: str, source: bytes) -> None:
    """Judge a repair."""
    found = judge(source, slug)
    assert found.accepted, found.sentence


def main() -> int:
    """Print the figures; the return value is the exit code."""
    count_boxes()
    repairs = {entry.slug: candidate_of(entry).encode() for entry in mechanisms().values() if entry.stages}
    repairs = {slug: repairs[slug] for slug in sys.argv[1:] or repairs}
    judged, least_bare = dict.fromkeys(repairs, float("inf")), float("inf")
    for _ in range(TURNS):
        for slug, source in repairs.items():
            judged[slug] = min(judged[slug], seconds(lambda slug=slug, source=source: accepted(slug, source)))
            least_bare = min(least_bare, *(seconds(bare) for _ in range(BARE_PER_TURN)))
    middle = sorted(judged.values())[len(judged) // 2]
    slowest = max(judged, key=judged.__getitem__)
    print(f"bare {least_bare * 1000:.1f} ms; {slowest} takes {judged[slowest] / least_bare:.1f} times as long")
    return verdict("a verdict over a bare interpreter", middle / least_bare, BAR)


if __name__ == "__main__":
    sys.exit(main())
