"""Learning: data, partition, models and local SGD. Nothing here knows of a radio."""
