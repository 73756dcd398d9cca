"""The folder of a run: written round by round, read back, listed."""
