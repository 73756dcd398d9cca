"""A PyTorch module over the cell (needs the extra: pip install 'fedcell[torch]')."""

import torch
from torch import nn

from fedcell import Learning, Scenario
from fedcell.learning import prepare_training
from fedcell.learning.engines.torch import TorchLearner, tensors
from fedcell.simulation import simulate

scenario = Scenario(learning=Learning(dataset="digits", rate=0.1)).using(
    clients={"count": 30}, plan={"cohort": 6, "local_steps": 8}
)
setup = prepare_training(scenario)
data = setup.data

torch.manual_seed(0)
module = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10)
)
learner = TorchLearner(
    module,
    tensors(data.x_train, data.y_train, data),
    tensors(data.x_test, data.y_test, data),
    setup.partition,
    setup.local_training,
)
parameters = sum(p.numel() for p in module.parameters())
world = scenario.using(task={"model_bits": 32.0 * parameters, "cycles_per_sample": 1e5})
ledger = simulate(world, "optimal", learner, rounds=15)
print(f"{parameters} parameters, accuracy {ledger.accuracy[-1]:.1%} after 15 rounds")
print(f"{ledger.total_duration[-1]:.2f} s and {ledger.total_energy[-1]:.2f} J")
