"""The audit under somebody else's launcher: `torchrun --nproc-per-node 2 -m failuremap.audit train.py ARGS`.

One small supervisor a rank, which imports no torch, runs the script as its child and passes signals on. Rank 0 judges.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from failuremap.audit import launch, session
from failuremap.audit.command_line import (
    COMMAND_SETTINGS,
    Options,
    check_outputs,
    judging_options,
    make_job,
    run_command,
    running_options,
    show,
)
from failuremap.audit.launch.exits import WAIT_SECONDS, gather_exits, write_exit
from failuremap.audit.launch.folder import TraceFolder, choose_folder
from failuremap.audit.launch.place import Place, find_place


@click.command("failuremap.audit", context_settings=COMMAND_SETTINGS)
@judging_options
@running_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(command: tuple[str, ...], **given: Any) -> int:
    """Audit the script that a launcher starts on every rank.

    COMMAND is `train.py ARGS`, or `-- -m package.train ARGS`. Any launcher will do that sets RANK and WORLD_SIZE;
    without them it is one process. Rank 0 prints the verdict, and its exit code is the verdict's.

    \b
    Examples:
      torchrun --nproc-per-node 2 -m failuremap.audit train.py --epochs 1
      torchrun --nnodes 2 ... -m failuremap.audit --trace /shared/run1 train.py

    \b
    Exit codes: 0 right · 1 wrong · 2 usage · 3 cannot tell or not measured · 4 the script failed
    """
    options, place = Options(**given), find_place(os.environ)
    folder = _folder(options.trace, place)
    job = make_job(command, None, folder.path, place.run_id, options)
    check_outputs(options)
    with folder.claimed(place.run_id, remove=place.rank == 0):
        ending = session.run(job, options.unit, options.promise) if place.rank == 0 else launch.run(job)
        write_exit(folder.path, place.rank, ending)
        if place.rank > 0:
            return _shell_code(ending.exit_code)
        ending, missing = gather_exits(folder.path, place.world_size, ending)
        verdict = session.judge(job, ending, options.unit, options.promise)
        if missing:
            verdict = session.without_ranks(verdict, missing, folder.path, WAIT_SECONDS)
    return show(verdict, options)


def _folder(trace: str | None, place: Place) -> TraceFolder:
    """Choose the folder; after a restart by the launcher, one inside the folder that the first attempt has used."""
    named = trace or os.environ.get("FAILUREMAP_TRACE_DIR")
    if named and place.restart:
        named = os.path.join(named, f"restart{place.restart}")  # noqa: PTH118 - choose_folder takes what the user typed
    return choose_folder(named, place.run_id)


def _shell_code(exit_code: int) -> int:
    """Say a signal as shells do: 128 and its number."""
    return 128 - exit_code if exit_code < 0 else exit_code


if __name__ == "__main__":
    sys.exit(run_command(main, quiet=os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) != "0"))
