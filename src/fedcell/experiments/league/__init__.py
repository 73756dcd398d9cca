"""Leagues: selectors and policies side by side, on the same seeds."""
