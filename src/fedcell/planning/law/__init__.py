"""Rounds to a target over K, E_l and gamma: given, from theory, or fitted to runs."""
