"""Shared by all packages: errors, strict tables, random streams, estimates, files, plugins."""
