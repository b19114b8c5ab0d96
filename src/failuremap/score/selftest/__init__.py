"""Trials of the judge itself: candidates that must be accepted, refused, or kept in."""

from failuremap.score.selftest.running import Check, Plan, Selftest, plan, selftest, to_json

__all__ = ["Check", "Plan", "Selftest", "plan", "selftest", "to_json"]
