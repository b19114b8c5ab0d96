"""How many held-back fixtures each mutant of a repair dies of: one that few notice will some day be accepted.

    python tests/score/kills.py [--keys 12] [--least 5] [SLUG ...]

prints, family by family, the mutants of which some key has fewer; those of `equivalents()` are no mutants here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from failuremap.catalogue import Mechanism, mechanism, mechanisms
from failuremap.score.examination import Examination, right_answer
from failuremap.score.fixtures import Fixture, held_back
from failuremap.score.forms import candidate_of
from failuremap.score.mutants import Mutant, equivalents, mutants
from failuremap.score.oracle import Answer
from failuremap.score.stopped import Stopped
from score.stand_in import InProcess


def key_of(number: int) -> bytes:
    return bytes([number]) * 32


@cache
def drawn(slug: str, key: bytes) -> list[tuple[Fixture, Answer]]:
    """Return the held-back fixtures of one key, each with its answer; the same for every candidate, to save time."""
    entry = mechanism(slug)
    return [(fixture, right_answer(entry, fixture)) for fixture in held_back(entry, "FM", key, "one digest for all")]


def killers(entry: Mechanism, source: str, key: bytes) -> Iterator[str]:
    """Yield the labels of the fixtures that a candidate does not pass."""
    try:
        caller = InProcess(source)
    except (KeyError, SyntaxError):
        yield from (fixture.label for fixture, _ in drawn(entry.slug, key))
        return
    for fixture, answer in drawn(entry.slug, key):
        try:
            passed = Examination(entry, caller).put([fixture], [answer])[0].passed
        except Stopped:
            passed = False
        if not passed:
            yield fixture.label


def real_mutants(entry: Mechanism) -> list[Mutant]:
    """Return the mutants that are another function."""
    same = {name for slug, name in equivalents() if slug == entry.slug}
    return [mutant for mutant in mutants(candidate_of(entry)) if mutant.name not in same]


def thin(entry: Mechanism, key: bytes, least: int, every: int = 1) -> dict[str, list[str]]:
    """Return the mutants that die of fewer fixtures than `least`, each with the labels of those."""
    found = {}
    for mutant in real_mutants(entry)[::every]:
        labels = [label for label, _ in zip(killers(entry, mutant.source, key), range(least), strict=False)]
        if len(labels) < least:
            found[mutant.name] = labels
    return found


def main() -> int:
    """Print what is thin; the return value is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slugs", nargs="*", metavar="SLUG")
    parser.add_argument("--keys", type=int, default=12)
    parser.add_argument("--least", type=int, default=5)
    options = parser.parse_args()
    entries = [entry for entry in mechanisms().values() if entry.stages]
    count = 0
    for entry in entries if not options.slugs else map(mechanism, options.slugs):
        worst: dict[str, list[str]] = {}
        for number in range(options.keys):
            for name, labels in thin(entry, key_of(number), options.least).items():
                worst[name] = min(worst.get(name, labels), labels, key=len)
            drawn.cache_clear()
        for name, labels in worst.items():
            print(f"{entry.slug}: {name}: {len(labels)} {labels}", flush=True)
        count += len(worst)
    print(f"{count} mutants die of fewer than {options.least} fixtures under one of {options.keys} keys")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
