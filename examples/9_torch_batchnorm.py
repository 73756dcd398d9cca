"""Use a PyTorch module with BatchNorm as your own learner, also on the command line.

`fedcell pilot`, `validate` and `run` take it as `--learner net:batchnorm` where this file is saved
as net.py (docs/how-to/learner.md). It needs the extra: pip install 'fedcell[torch]'.
"""

import torch
from torch import nn

from fedcell import Compute, Scenario, load_scenario, run
from fedcell.learning import prepare_training
from fedcell.learning.engines.torch import TorchLearner, tensors


def batchnorm(scenario: Scenario, seed: int) -> TorchLearner:
    """Return the learner of a scenario: data, partition and steps as [learning] declares,
    and this module."""
    torch.set_num_threads(1)  # layers this small are slower with more: threads wait for each other
    setup = prepare_training(scenario, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # the same seed starts with the same weights
        module = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(128, 10)),
        )
    data = setup.data
    train = tensors(data.x_train, data.y_train, data)
    test = tensors(data.x_test, data.y_test, data)
    return TorchLearner(module, train, test, setup.partition, setup.local_training)


if __name__ == "__main__":
    # Size of an upload and cycles per sample: fedcell does not know them for your module.
    costs = {"model_bits": 32 * 1402, "cycles_per_sample": 18e3}
    scenario = load_scenario("digits").using(task=costs)
    result = run(scenario, ["optimal"], rounds=5, compute=Compute(learner=batchnorm))
    print(result)
