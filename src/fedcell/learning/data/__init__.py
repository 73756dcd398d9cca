"""Datasets: those that come with fedcell, published ones, and the user's own."""
