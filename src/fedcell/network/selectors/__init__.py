"""Selectors: rules that say which clients a round calls."""
