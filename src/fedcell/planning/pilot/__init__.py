"""Short runs that measure how many rounds training takes."""
