"""The network side: rounds drawn, posed, scheduled and priced."""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.network.channels.links import Links as Links
    from fedcell.network.channels.testing import check_channel as check_channel
    from fedcell.network.compare import Comparison as Comparison
    from fedcell.network.compare import CostSweep as CostSweep
    from fedcell.network.compare import PolicyCosts as PolicyCosts
    from fedcell.network.compare import SweepPoint as SweepPoint
    from fedcell.network.compare import sweep_costs as sweep_costs
    from fedcell.network.draw import draw_fleet as draw_fleet
    from fedcell.network.draw import draw_trace as draw_trace
    from fedcell.network.ledger import Ledger as Ledger
    from fedcell.network.physics.discrete.curve import LinkCurve as LinkCurve
    from fedcell.network.physics.discrete.curve import link_curve as link_curve
    from fedcell.network.physics.discrete.harq import mean_tries as mean_tries
    from fedcell.network.physics.discrete.harq import residual_loss as residual_loss
    from fedcell.network.physics.discrete.standards.lora import time_on_air as time_on_air
    from fedcell.network.physics.timeline import Timeline as Timeline
    from fedcell.network.schedule import ScheduledRound as ScheduledRound
    from fedcell.network.schedule import load_round as load_round
    from fedcell.network.schedule import schedule_round as schedule_round
    from fedcell.network.simulate import simulate_network as simulate_network
    from fedcell.network.trace import Fleet as Fleet
    from fedcell.network.trace import Trace as Trace
    from fedcell.scenario.channel.laws import PathLossLaw as PathLossLaw
    from fedcell.scenario.channel.laws import Propagation as Propagation
    from fedcell.scenario.channel.measured import Measured as Measured
    from fedcell.scenario.measured_device.fit import FittedDevice as FittedDevice
    from fedcell.scenario.measured_device.fit import fit_device as fit_device

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.network.channels.links": ["Links"],
        "fedcell.network.channels.testing": ["check_channel"],
        "fedcell.network.compare": [
            "Comparison",
            "CostSweep",
            "PolicyCosts",
            "SweepPoint",
            "sweep_costs",
        ],
        "fedcell.network.draw": ["draw_fleet", "draw_trace"],
        "fedcell.network.ledger": ["Ledger"],
        "fedcell.network.physics.discrete.curve": ["LinkCurve", "link_curve"],
        "fedcell.network.physics.discrete.harq": ["mean_tries", "residual_loss"],
        "fedcell.network.physics.discrete.standards.lora": ["time_on_air"],
        "fedcell.network.physics.timeline": ["Timeline"],
        "fedcell.network.schedule": ["ScheduledRound", "load_round", "schedule_round"],
        "fedcell.network.simulate": ["simulate_network"],
        "fedcell.network.trace": ["Fleet", "Trace"],
        "fedcell.scenario.channel.laws": ["PathLossLaw", "Propagation"],
        "fedcell.scenario.channel.measured": ["Measured"],
        "fedcell.scenario.measured_device.fit": ["FittedDevice", "fit_device"],
    },
)
