"""The server of a federation: its devices, its rounds, their replies."""
