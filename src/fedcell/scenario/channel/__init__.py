"""How radio waves reach the station: path loss by name, buildings, fading, measured channels."""
