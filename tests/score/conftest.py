"""What the tests of the score share: the highest sound box of this machine."""

from __future__ import annotations

import os
import shutil

import pytest

from failuremap.score.box import sound_level


@pytest.fixture(scope="session")
def sound() -> str:
    """The highest sound level of a box here; the test is skipped, or fails in CI, where there is none."""
    if level := sound_level():
        return level
    advice = "no box opens here all the same" if shutil.which("bwrap") else "install it: apt install bubblewrap"
    if {"all", "bwrap"} & set(os.environ.get("FAILUREMAP_REQUIRE", "").split(",")):
        pytest.fail(f"bubblewrap is demanded; {advice}", pytrace=False)
    pytest.skip(f"no sound box without bubblewrap; {advice}")
