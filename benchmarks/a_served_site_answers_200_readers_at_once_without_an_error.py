"""A served site answers 200 readers at once without an error, on two cores, while the readers take one of them.

Each reader fetches eight addresses one after another: pages, a style sheet, a record, the whole catalogue as a zip, and
pages that ask the database. The table shows how many answers a second came, and how long one took.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from support.runs import verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from served import Server

READERS = 200
PATHS = (
    "/",
    "/mechanism/",
    "/case/FM-001-1/",
    "/assets/style.css",
    "/api/cases/FM-001-1",
    "/all.zip",
    "/access",
    "/sign-in",
)
BAR_ERRORS = 0


def read(url: str) -> list[tuple[int, float]]:
    """Fetch all addresses; return status and seconds of each."""
    answers = []
    with httpx.Client(base_url=url, timeout=120) as reader:
        for path in PATHS:
            begun = time.perf_counter()
            answers.append((reader.get(path).status_code, time.perf_counter() - begun))
    return answers


def main() -> int:
    """Print the figures; the return value is the exit code."""
    with tempfile.TemporaryDirectory() as name:
        site = Server(Path(name), only=()).start()
        try:
            begun = time.perf_counter()
            with ThreadPoolExecutor(READERS) as readers:
                answers = [answer for one in readers.map(read, [site.url] * READERS) for answer in one]
            took = time.perf_counter() - begun
        finally:
            site.stop()
    seconds = sorted(seconds for _, seconds in answers)
    errors = sum(status != 200 for status, _ in answers)
    print(f"{len(answers)} answers in {took:.1f} s, {len(answers) / took:.0f} a second", flush=True)
    print(f"half within {seconds[len(seconds) // 2]:.2f} s, all within {seconds[-1]:.2f} s", flush=True)
    return verdict("errors among the answers", errors, BAR_ERRORS)


if __name__ == "__main__":
    sys.exit(main())
