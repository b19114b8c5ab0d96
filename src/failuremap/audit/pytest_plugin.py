"""The fixture `audit` for pytest: a training script, or a function, run on several ranks under the audit.

    def test_step(audit):
        audit("train.py", nproc=2).assert_right()

pytest finds the plugin by itself; it imports nothing of the audit before a test asks for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from failuremap.audit.testing import Auditor


@pytest.fixture
def audit(request: pytest.FixtureRequest) -> Auditor:
    """Runs a script or a function under the audit: `audit("train.py", nproc=2).assert_right()`."""
    from failuremap.audit.testing import Auditor

    return Auditor(request.path.parent, request.config.rootpath)
