"""A plan on real machines: the paper's process over a federation of devices, by Flower."""
