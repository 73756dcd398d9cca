"""The network side: what the dice decide, one round posed, scheduled and priced, many summed."""
