"""Variables of the environment that are set for a while."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Sets variables, and puts back what they were."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
