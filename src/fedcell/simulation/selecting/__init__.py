"""Selectors that learn: rounds whose clients are chosen while a model is trained."""
