"""What adding gradients up means: exact rules. No arrays, no I/O, no frameworks in here."""

from failuremap.rules.known import KNOWN as KNOWN
from failuremap.rules.known import known_rule as known_rule
from failuremap.rules.known import without_rank as without_rank
from failuremap.rules.match import Match as Match
from failuremap.rules.match import indistinguishable as indistinguishable
from failuremap.rules.match import match as match
from failuremap.rules.match import what_separates as what_separates
from failuremap.rules.rule import Contribution as Contribution
from failuremap.rules.rule import Layout as Layout
from failuremap.rules.rule import Rule as Rule
