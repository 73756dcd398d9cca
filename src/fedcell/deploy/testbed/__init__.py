"""Clients and a server on one machine, each with a network of its own and links of set rates."""
