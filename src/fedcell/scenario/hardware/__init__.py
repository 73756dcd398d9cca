"""Keys of radios and devices: what a data sheet says. Left out, the world is the paper's."""
