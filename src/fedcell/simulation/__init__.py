"""Network and learning joined: one training, priced under every policy, kept in a folder."""
