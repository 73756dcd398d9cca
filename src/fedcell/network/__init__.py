"""The network: random draws, and rounds that are posed, scheduled, priced and summed."""
