"""Partitions of the training samples over the clients: by a rule, or given."""
