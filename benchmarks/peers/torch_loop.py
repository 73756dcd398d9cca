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
    Team,
    arguments,
    serve,
    shares,
    torch_batches,
    torch_data,
    torch_loss,
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


def main() -> None:
    args = arguments(__doc__, processes=2, threads=1)
    model = torch_model(args.model)
    weights = [p.detach().share_memory_() for p in model.parameters()]  # the model sees them too
    parts = shares(args.cohort, args.processes)
    totals = [[torch.zeros_like(w).share_memory_() for w in weights] for _ in parts]
    team = Team(build, [(args, c, weights, t) for c, t in zip(parts, totals, strict=True)])

    def run() -> float:
        cpu = team.round()
        for shared, *sums in zip(weights, *totals, strict=True):
            shared.copy_(sum(sums) / args.cohort)
        return cpu

    run()
    serve(run, torch_loss(model, args.learnable))
    team.stop()


if __name__ == "__main__":
    main()
