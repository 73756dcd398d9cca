"""The plain PyTorch loop: zero_grad, backward, step, client after client.

In its favour: the clients are split over processes of one thread each, which is faster on small
models than one process with all threads (--processes 1 --threads 2); the processes stay up, and
weights and sums travel through shared memory; data are tensors in memory, without a DataLoader.
"""

from argparse import Namespace
from collections.abc import Callable

import torch
from common import (
    RATE,
    arguments,
    torch_batches,
    torch_data,
    torch_main,
    torch_model,
)
from torch import Tensor
from torch.nn.functional import cross_entropy


def build(
    args: Namespace, clients: list[int], weights: list[Tensor], total: list[Tensor]
) -> Callable[[], None]:
    """One process's part of a round: from `weights`, the sum of its clients' models in `total`."""
    torch.set_num_threads(args.threads)
    images, labels = torch_data(args.cohort, args.learnable)
    model = torch_model(args.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    batches = {j: torch_batches(labels.shape[1], args.steps, args.batch, j) for j in clients}

    def run() -> None:
        for nth, j in enumerate(clients):
            with torch.no_grad():
                for own, shared in zip(model.parameters(), weights, strict=True):
                    own.copy_(shared)
            for index in next(batches[j]):
                optimizer.zero_grad()
                cross_entropy(model(images[j, index]), labels[j, index]).backward()
                optimizer.step()
            with torch.no_grad():
                for own, shared in zip(model.parameters(), total, strict=True):
                    shared.copy_(own) if nth == 0 else shared.add_(own)

    return run


if __name__ == "__main__":
    torch_main(build, arguments(__doc__, processes=2, threads=1))
