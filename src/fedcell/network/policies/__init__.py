"""Who gets which share of the band and which CPU frequency: a policy answers a Problem."""
