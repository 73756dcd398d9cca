"""pfl-research: FederatedAveraging on its SimulatedBackend with its PyTorch model adapter.

Set up as its users do for several processes: every process runs the same algorithm, pfl gives
each its part of the cohort and sums the updates with torch.distributed (gloo). In its favour:
one thread per process, tensors in memory, no evaluation, no callbacks, no metrics printed. A
user's data set is its E random batches of the round, one epoch of them, so that all its local
steps have full batches. `run` is called with one more central iteration for each round.
"""

import json
import os
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable

import numpy as np
import torch
from common import RATE, arguments, serve, torch_batches, torch_data, torch_loss, torch_model


class Cnn(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.layers = torch_model(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, _x: torch.Tensor, _y: torch.Tensor) -> dict:
        return {}  # nothing is evaluated


def build(args: Namespace, model: Cnn) -> Callable[[], None]:
    """This process's part of a round. pfl joins the others as soon as it is imported."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)
    np.random.seed(0)  # noqa: NPY002  (all processes must sample the same users)
    images, labels = torch_data(args.cohort, args.learnable)
    users = range(args.cohort)
    batches = [torch_batches(labels.shape[1], args.steps, args.batch, j) for j in users]

    def user_data(user: int) -> PyTorchTensorDataset:
        index = next(batches[user]).flatten()
        return PyTorchTensorDataset((images[user, index], labels[user, index]), user_id=str(user))

    sampler = get_user_sampler("minimize_reuse", list(users))
    backend = SimulatedBackend(FederatedDataset(user_data, sampler), val_data=None)
    adapter = PyTorchModel(
        model,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
    )
    local = NNTrainHyperParams(
        local_batch_size=args.batch, local_num_epochs=1, local_learning_rate=RATE
    )
    algorithm = FederatedAveraging()
    rounds = 0

    def run() -> None:
        nonlocal rounds
        rounds += 1
        algorithm.run(
            NNAlgorithmParams(
                central_num_iterations=rounds,
                evaluation_frequency=sys.maxsize,
                train_cohort_size=args.cohort,
                val_cohort_size=None,
            ),
            backend,
            adapter,
            model_train_params=local,
            send_metrics_to_platform=False,
        )

    return run


def start_others(count: int) -> list[subprocess.Popen]:
    """Start the other processes, which run this script with the same instructions."""
    ports = []
    for _ in range(count + 1):  # pfl wants an address of each, gloo uses the first
        with socket.create_server(("localhost", 0)) as free:
            ports.append(free.getsockname()[1])
    os.environ["PFL_WORKER_ADDRESSES"] = ",".join(f"localhost:{port}" for port in ports)
    os.environ["PFL_WORKER_RANK"] = "0"
    return [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env={**os.environ, "PFL_WORKER_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for rank in range(1, count + 1)
    ]


def main() -> None:
    args = arguments(__doc__, processes=2)
    others = []
    if args.processes > 1 and "PFL_WORKER_RANK" not in os.environ:
        others = start_others(args.processes - 1)
    model = Cnn(args.model)
    run = build(args, model)
    run()
    for other in others:
        other.stdout.readline()

    def run_all() -> float:
        for other in others:
            other.stdin.write("go\n")
        run()
        return sum(json.loads(other.stdout.readline())["cpu"] for other in others)

    serve(run_all, torch_loss(model, args.learnable))
    for other in others:
        other.communicate()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
