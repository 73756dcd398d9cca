"""The channel gains of a scenario: drawn with path loss, shadowing, motion and fading, or measured."""
