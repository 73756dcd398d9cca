"""Scenarios: the tables that a user declares, their files, and their identity."""
