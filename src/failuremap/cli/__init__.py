"""The command line: parse, call, print. Everything it does is a function of the library."""

from __future__ import annotations

import sys
from typing import Any

import click

from failuremap import __version__
from failuremap.audit.command_line import run_command
from failuremap.cli.audit import audit_command, diagnose_command, probe_command
from failuremap.cli.catalogue import list_command, show_command
from failuremap.cli.exchange import export_command, import_command
from failuremap.cli.fit import fit_command
from failuremap.cli.running import run_script_command, verify_command
from failuremap.cli.score import score_command
from failuremap.cli.serve import backup_command, invite_command, member_command, restore_command, serve_command
from failuremap.cli.site import site_command

_NOTHING_ASKED = 2  # as click has it; 0 would read as a right job


class _CommandLine(click.Group):
    """A group that ends the process with what a command returns, and says bad usage in one line."""

    def __call__(self, *_args: Any, **_options: Any) -> Any:
        sys.exit(run_command(self))


@click.group(cls=_CommandLine, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="failuremap")
@click.pass_context
def main(context: click.Context) -> int:
    """See what a training job really does with its gradients.

    \b
      failuremap audit --nproc 2 -- train.py --epochs 1     run a script and judge it
      failuremap show replica-means-ignore-counts           what a named fault is, and its repair
      failuremap run replica-means-ignore-counts            see it happen in a script of 20 lines
      failuremap score repair.py --case FM-001-1            judge a repair that somebody wrote
    """
    if context.invoked_subcommand is not None:
        return 0
    click.echo(context.get_help(), err=True)
    return _NOTHING_ASKED


for command in (
    score_command, probe_command, fit_command,
    audit_command, diagnose_command, list_command, show_command, run_script_command, verify_command, import_command,
    export_command, site_command, serve_command, invite_command, member_command, backup_command, restore_command,
):  # fmt: skip
    main.add_command(command)
