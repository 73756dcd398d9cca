"""Plans that change during a run, from the losses so far."""
