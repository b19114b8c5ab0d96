"""An ending says in one sentence what happened first."""

from __future__ import annotations

import pytest

from failuremap.audit.launch import Ending

SENTENCES = {
    "the script exited with code 0": Ending((0, 0)),
    "the script exited with code 3": Ending((3,), first_failed=0),
    "the script was killed by SIGSEGV": Ending((-11,), first_failed=0),
    "rank 1 exited with code 3": Ending((-15, 3), first_failed=1),
    "rank 2 was killed by SIGKILL": Ending((1, 1, -9), first_failed=2),
    "rank 1 was killed by signal 40": Ending((0, -40), first_failed=1),
    "the script was still running after 20 s (--timeout 20) and was stopped": Ending((-15,), True, timeout=20.0),
    "the script was interrupted after 12 s": Ending((-2, -2), interrupted=True, seconds=12.1),
    "rank 0 exited with code 4": Ending((4, -15), interrupted=True, first_failed=0),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_an_ending_is_told_in_words(sentence):
    assert SENTENCES[sentence].sentence == sentence


def test_the_exit_code_is_that_of_the_rank_that_failed_first():
    assert Ending((-15, 3, 1), first_failed=1).exit_code == 3


@pytest.mark.parametrize(
    "ending", [Ending((0, 1)), Ending((0,), timed_out=True), Ending((0,), interrupted=True), Ending((-9,))]
)
def test_what_did_not_end_well_by_itself_has_failed(ending):
    assert ending.failed
