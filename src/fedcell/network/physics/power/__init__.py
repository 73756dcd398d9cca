"""Transmit powers that a policy chooses: links, the joint problem, and its certificate."""
