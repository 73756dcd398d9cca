"""The channel gains of a scenario: drawn, with shadowing, motion and fading, or measured."""
