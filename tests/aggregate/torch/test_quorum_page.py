"""The loop that docs/lost-replicas.md shows trains the same weights with any number of replicas."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.torchft, pytest.mark.slow]

PAGE = Path(__file__).parents[3] / "docs" / "lost-replicas.md"


def weights_of(script: Path, replica_count: int) -> list[list[float]]:
    """Run replicas of a script, which begin together, and return the weights that each of them prints."""
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=replica_count, join_timeout_ms=500)
    address = f"http://127.0.0.1:{lighthouse.address().rsplit(':', 1)[1]}"
    replicas = [
        subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TORCHFT_LIGHTHOUSE": address, "REPLICA": f"replica{index}", "OMP_NUM_THREADS": "1"},
        )
        for index in range(replica_count)
    ]
    printed = [replica.communicate(timeout=240)[0] for replica in replicas]
    lighthouse.shutdown()
    assert [replica.returncode for replica in replicas] == [0] * replica_count
    return [[number for row in json.loads(text) for number in row] for text in printed]


def test_the_page_s_loop_does_not_depend_on_the_number_of_replicas(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    script = tmp_path / "train.py"
    script.write_text(code, encoding="utf-8")
    (right,) = weights_of(script, 1)

    first, second = weights_of(script, 2)

    assert first == second == pytest.approx(right, abs=1e-5)
    script.write_text(code.replace("count=(y != -100).sum()", "count=1"), encoding="utf-8")
    assert weights_of(script, 2)[0] != pytest.approx(right, abs=1e-3)
