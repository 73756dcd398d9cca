"""Run a plan on real machines, by Flower."""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.deploy.exchanges import DeviceReport as DeviceReport
    from fedcell.deploy.exchanges import Exchange as Exchange
    from fedcell.deploy.exchanges import ExchangeReport as ExchangeReport
    from fedcell.deploy.exchanges import load_exchanges as load_exchanges
    from fedcell.deploy.local.federation import LocalFederation as LocalFederation
    from fedcell.deploy.options import FederationOptions as FederationOptions
    from fedcell.deploy.options import RunConfig as RunConfig
    from fedcell.deploy.server.pilot import pilot_federation as pilot_federation
    from fedcell.deploy.server.run import run_federation as run_federation
    from fedcell.deploy.testbed.testbed import Testbed as Testbed

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.deploy.exchanges": [
            "DeviceReport",
            "Exchange",
            "ExchangeReport",
            "load_exchanges",
        ],
        "fedcell.deploy.local.federation": ["LocalFederation"],
        "fedcell.deploy.options": ["FederationOptions", "RunConfig"],
        "fedcell.deploy.server.pilot": ["pilot_federation"],
        "fedcell.deploy.server.run": ["run_federation"],
        "fedcell.deploy.testbed.testbed": ["Testbed"],
    },
)
