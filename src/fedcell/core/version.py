"""The version, in one place: of the package, and in every file that it writes."""

__version__ = "0.2.0"


def versions() -> dict[str, str]:
    """Of this package and of what its numbers depend on."""
    import platform
    from importlib.metadata import version

    others = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"fedcell": __version__, "python": platform.python_version(), **others}
