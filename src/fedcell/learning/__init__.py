"""Data, partitions, models and local training: all that touches weights, and nothing of radios."""
