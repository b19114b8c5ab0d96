"""One small exchange when a handle is made: all ranks have the same settings, or all get the same error."""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch

from failuremap.aggregate.torch.ranks import Ranks
from failuremap.errors import InvalidArgument

_BYTES = 4096
_LONGEST = 512  # bytes of a value; JSON escapes may double them


def agree(ranks: Ranks, settings: Mapping[str, str], refusal: str) -> None:
    """Learns who the ranks are, and that all of them have these settings.

    Args:
        settings: Name -> value, as a message shows it.
        refusal: Why this rank can't go on; "" where it can.

    Raises:
        InvalidArgument: A rank refuses, or has another setting; the same message on all ranks.
    """
    if not ranks.groups:
        if refusal:
            raise InvalidArgument(refusal)
        return
    said = [_read(row) for row in ranks.spread(_written(ranks, settings, refusal)).cpu()]
    ranks.names = tuple(int(each["rank"]) for each in said)
    refused = next((each for each in said if each["refusal"]), None)
    if refused:
        raise InvalidArgument(f"rank {refused['rank']}: {refused['refusal']}")
    for name in settings:
        other = next((each for each in said if each[name] != said[0][name]), None)
        if other:
            raise InvalidArgument(
                f"{name}={other[name]} on rank {other['rank']}, but {name}={said[0][name]} on rank {said[0]['rank']}; "
                "all ranks attach with the same settings, to the same model."
            )


def _written(ranks: Ranks, settings: Mapping[str, str], refusal: str) -> torch.Tensor:
    said = {**settings, "rank": ranks.own, "refusal": _cut(refusal)}
    text = json.dumps(said, ensure_ascii=False).encode()
    assert len(text) <= _BYTES, "what the ranks compare is short"
    return torch.frombuffer(bytearray(text.ljust(_BYTES)), dtype=torch.uint8)


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:_LONGEST].decode(errors="ignore")


def _read(row: torch.Tensor) -> dict[str, str]:
    said: dict[str, str] = json.loads(row.numpy().tobytes())
    return said
