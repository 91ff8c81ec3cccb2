"""Attacks and benign controls: one module per area with `judge(case, profiles) -> Outcome`; run by tests.cases."""

from tests.cases.outcome import LATER, Outcome, UnknownWordError, alternatives, broken, kept

__all__ = ["LATER", "Outcome", "UnknownWordError", "alternatives", "broken", "kept"]
