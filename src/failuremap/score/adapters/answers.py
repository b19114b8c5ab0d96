"""A model's answer -> a verdict, by one key for the whole run of a harness."""

from __future__ import annotations

import os
import secrets
from functools import cache
from pathlib import Path

from failuremap.catalogue.exchange.intake import read_key
from failuremap.errors import InvalidArgument
from failuremap.score.adapters.prompts import candidate_in
from failuremap.score.judge import KEY_BYTES, judge
from failuremap.score.judging import sealed
from failuremap.score.suite import Suite
from failuremap.score.verdict import Verdict

KEY_VARIABLE = "FAILUREMAP_SEASON_KEY"
"""Names the file of the operator's key; without it a run draws a key, and reveals it in its verdicts."""


def judge_answer(answer: str, case: str, suite: Suite) -> Verdict:
    """Judges the candidate in a model's answer.

    Raises:
        InvalidArgument: The suite is the sealed one, and the environment names no key.
    """
    path = os.environ.get(KEY_VARIABLE)
    if suite == "sealed" and not path:
        raise InvalidArgument(
            f"suite='sealed' needs {KEY_VARIABLE}, the file of the season's key:  head -c 32 /dev/urandom > season.key"
        )
    key = read_key(Path(path)) if path else _drawn()
    verdict = judge(candidate_in(answer).encode(errors="surrogatepass"), case, key=key, reveal_key=not path)
    return sealed(verdict) if suite == "sealed" else verdict


@cache
def _drawn() -> bytes:
    return secrets.token_bytes(KEY_BYTES)
