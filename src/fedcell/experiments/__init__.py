"""Sweeps: experiments as data, trainings that run once, and executors that run them."""
