"""The solver of the joint problem over share, clock and transmit power."""
