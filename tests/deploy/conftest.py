"""After each test no process of its federation is left; after each file, none of a shared one."""

import contextlib
import importlib.util
import os
import signal

import pytest

FLOWER = importlib.util.find_spec("flwr") is not None


@pytest.fixture(autouse=True, scope="module")
def ports():
    """The ports that federations of a file were given; at its end no process listens there."""
    if not FLOWER:
        yield []
        return
    from fedcell.deploy.local import federation as local
    from support.federations import in_use

    given, free = [], local.free_port

    def remembering() -> int:
        given.append(free())
        return given[-1]

    local.free_port = remembering
    yield given
    local.free_port = free
    _check_gone()
    assert not in_use(given)


@pytest.fixture(autouse=True)
def nothing_left(request, ports):
    """Check that no process outlives its test, unless the tests of a file share the federation."""
    if not FLOWER or "shared" in request.fixturenames:
        yield
        return
    from support.federations import in_use, ours

    before, used = set(ours()), set(in_use(ports))
    yield
    _check_gone(before)
    assert set(in_use(ports)) <= used


def _check_gone(before=frozenset()) -> None:
    """Kill what is left, so that it does not disturb other tests, and fail."""
    from support.federations import ours, until

    try:
        until(lambda: set(ours()) <= before, 60.0)
    except AssertionError:
        left = set(ours()) - before
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"still there: {left}") from None
