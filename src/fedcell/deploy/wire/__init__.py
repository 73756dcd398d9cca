"""What travels between server and devices: models, profiles, messages."""
