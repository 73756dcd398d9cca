"""Devices from measurements: seconds and joules at several clocks and batch sizes."""
