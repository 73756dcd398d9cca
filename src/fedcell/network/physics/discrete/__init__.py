"""Links with steps: modulation and coding, retransmissions, blocks and frames, on-time."""
