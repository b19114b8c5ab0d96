"""The command that fits an update in a file to contributions in files: fit."""

from __future__ import annotations

from pathlib import Path

import click

from failuremap.errors import InvalidArgument

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("fit")
@click.argument("contributions", type=_FILE, nargs=-1, required=True, metavar="G0.npy G1.npy ...")
@click.option("--update", type=_FILE, required=True, metavar="U.npy", help="What the optimizer stepped on.")
@click.option("--counts", metavar="N,N,...", help="Units behind each contribution: the rule is named.")
@click.option("--sampled", is_flag=True, help="Read 64 blocks of each file; what differs elsewhere goes unseen.")
def fit_command(contributions: tuple[Path, ...], update: Path, counts: str | None, sampled: bool) -> int:
    """Say what an update is made of: the coefficient of each local gradient, from files.

    The files are written by numpy.save, all of one size: local gradients, each a mean over its units, and the update.

    \b
    Examples:
      failuremap fit --update u.npy g0.npy g1.npy
      failuremap fit --update u.npy g0.npy g1.npy --counts 3,5 --sampled

    Exit codes: 0 a combination of the gradients · 1 not one · 2 usage · 3 they cannot be told apart
    """
    from failuremap.audit.fitting.gradient_files import fit_files

    found = fit_files(update, contributions, None if counts is None else _numbers(counts), sampled=sampled)
    width = max(len(str(path)) for path in contributions)
    for path, coefficient, error in zip(contributions, found.coefficients, found.errors, strict=True):
        click.echo(f"{path!s:{width}}  {coefficient:.6g} ± {error:.1g}")
    click.echo(f"left over: {found.misfit:.2g} of the update; rounding explains up to {found.tolerance:.2g}")
    if not found.explained:
        click.echo(
            "The update is no combination of these gradients: some parameters follow another rule, or one is missing."
        )
        return 1
    if any(error == float("inf") for error in found.errors):
        click.echo("The coefficients cannot be told apart: the gradients are too much alike.")
        return 3
    if counts is not None:
        names = ", ".join(match.rule.name for match in found.rules)
        click.echo(f"rule: {names}" if names else "rule: none of the known ones")
    return 0


def _numbers(counts: str) -> list[int]:
    try:
        return [int(count) for count in counts.split(",")]
    except ValueError as error:
        raise InvalidArgument(f"--counts={counts} is no list of whole numbers; expected one like 3,5.") from error
