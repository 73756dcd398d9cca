"""Clients and a server on one machine, each in its own network namespace, with shaped links."""
