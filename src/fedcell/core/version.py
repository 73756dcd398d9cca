"""The version, in one place: of the package, and in every file that it writes."""

__version__ = "0.2.0"
