"""Sentences of the paper, each judged by the panel that it belongs to."""
