"""Devices and radios that one can buy, every number with its source."""
