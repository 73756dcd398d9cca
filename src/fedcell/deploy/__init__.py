"""Federated learning for real: a network on one machine, and federations that run in it."""
