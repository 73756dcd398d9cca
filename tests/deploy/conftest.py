"""After each test of a federation nothing of it is left; what a file's tests share, after them."""

import contextlib
import importlib.util
import os
import signal

import pytest

FLOWER = importlib.util.find_spec("flwr") is not None


@pytest.fixture(autouse=True, scope="module")
def ports():
    """The ports that federations of a file were given; at its end nobody listens there."""
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
    """No process of ours outlives its test, unless all tests of a file share the federation, which
    may be there before and after."""
    if not FLOWER or "shared" in request.fixturenames:
        yield
        return
    from support.federations import in_use, ours

    before, used = set(ours()), set(in_use(ports))
    yield
    _check_gone(before)
    assert set(in_use(ports)) <= used


def _check_gone(before=frozenset()) -> None:
    """Kills what is left, lest it trouble others, and then says so."""
    from support.federations import ours, until

    try:
        until(lambda: set(ours()) <= before, 10.0)
    except AssertionError:
        left = set(ours()) - before
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"still there: {left}") from None
