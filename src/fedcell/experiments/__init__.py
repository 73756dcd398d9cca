"""Sweeps: experiments as data, trainings that are made once, and who makes them."""
