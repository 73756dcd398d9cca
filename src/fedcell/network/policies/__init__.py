"""Policies: they choose the share of the band and the CPU frequency of each client."""
