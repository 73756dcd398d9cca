"""Whether this machine can make a testbed."""

from fedcell.core.errors import NoTestbed

from .links import unusable
from .testbed import Testbed


def why_not() -> str | None:
    """None where a testbed can be made here, else a sentence that tells why not. It makes a small
    one and tries its parts. Processors without a limit are no reason: `Testbed.why_no_quota`."""
    if reason := unusable():
        return reason
    try:
        with Testbed(1) as testbed, testbed.meter():
            testbed.set_rate(0, 1e6)
            if testbed.start(0, ["true"]).wait(timeout=10):
                return "a testbed cannot start processes in its network namespaces here"
    except NoTestbed as error:
        return str(error)
    return None
