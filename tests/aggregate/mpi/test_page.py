"""The loops that docs/mpi.md shows train the same weights on any number of ranks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aggregate.mpi.running import mpirun

pytestmark = pytest.mark.mpi

PAGE = Path(__file__).parents[3] / "docs" / "mpi.md"


@pytest.mark.slow
def test_the_page_s_loops_do_not_depend_on_the_number_of_ranks(tmp_path: Path) -> None:
    code = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text("\n".join(code), encoding="utf-8")

    printed = [mpirun(tmp_path / "train.py", rank_count=size).splitlines() for size in (1, 2, 4)]

    rounded, exact = zip(*printed, strict=True)
    one = json.loads(rounded[0])
    assert [json.loads(line) for line in rounded[1:]] == [pytest.approx(one, rel=1e-12)] * 2
    assert len(set(exact)) == 1
    assert json.loads(exact[0]) == pytest.approx(one, rel=1e-12)
