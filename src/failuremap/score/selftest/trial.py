"""A candidate of which it is known what the judge must say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["baseline", "honest", "attack", "mutant"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Trial:
    """One candidate for one family.

    Attributes:
        kind: `honest` must be accepted; the others must not.
        name: What it is, unique among those of the kind.
        source: Its text.
        equivalent: Why a mutant is the same function, and so must be accepted; "" where it isn't.
    """

    kind: Kind
    name: str
    source: str
    equivalent: str = ""

    @property
    def to_accept(self) -> bool:
        """True where the judge must accept it."""
        return self.kind == "honest" or bool(self.equivalent)
