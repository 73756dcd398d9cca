"""The version of the package, which every file that it writes holds."""

__version__ = "0.3.0"


def versions() -> dict[str, str]:
    """Return the versions of this package and of the libraries that its numbers depend on."""
    import platform
    from importlib.metadata import version

    others = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"fedcell": __version__, "python": platform.python_version(), **others}
