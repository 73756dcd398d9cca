"""Compiled local SGD: the innermost loops, and how they get fast."""
