"""A federation as processes on this machine."""
