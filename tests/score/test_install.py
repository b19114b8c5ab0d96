"""`make test` installs bubblewrap where it can, and says what to install where it cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("install.sh")
ADVICE = (
    "bubblewrap is absent: nothing can be scored, and the tests of the box are skipped. "
    "Install it: sudo apt install bubblewrap\n"
)


@pytest.fixture
def machine(tmp_path):
    """A function that runs the script where only these programs exist, given as name -> body."""

    def run(**programs: str) -> str:
        for name, body in programs.items():
            path = tmp_path / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            path.chmod(0o755)
        done = subprocess.run(
            ["/bin/sh", SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
        )
        return done.stdout

    return run


def test_where_it_is_there_is_nothing_to_do(machine):
    assert machine(bwrap="", id="echo 0", apt_get="echo $@ >>${0%/*}/calls") == ""


def test_an_ordinary_user_is_told_what_to_install(machine, tmp_path):
    assert machine(id="echo 1000", apt_get="echo $@ >>${0%/*}/calls") == ADVICE
    assert not (tmp_path / "calls").exists()


def test_root_without_apt_is_told_what_to_install(machine):
    assert machine(id="echo 0") == ADVICE


def test_root_installs_it(machine, tmp_path):
    assert machine(id="echo 0", apt_get="echo $@ >>${0%/*}/calls") == "installing bubblewrap (once)\n"
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "install -y -qq bubblewrap\n"


def test_where_the_lists_are_old_they_are_renewed_once(machine, tmp_path):
    apt = 'echo "$1" >>${0%/*}/calls; [ "$1" = update ] || [ -e ${0%/*}/renewed ] || { : >${0%/*}/renewed; exit 1; }'

    assert machine(id="echo 0", apt_get=apt) == "installing bubblewrap (once)\n"
    assert (tmp_path / "calls").read_text(encoding="utf-8").split() == ["install", "update", "install"]


def test_where_nothing_can_be_installed_it_says_so(machine):
    assert machine(id="echo 0", apt_get="exit 1").endswith(ADVICE)
