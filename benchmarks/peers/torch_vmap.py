"""PyTorch with the clients as one batch: torch.func's vmap and grad, compiled by torch.compile.

In its favour: the clients are split over processes of one thread each, which stay up; weights
travel through shared memory; one compiled function takes an SGD step of all clients of the
process and updates their weights in place; compiling, which takes a minute, is over before
`ready`. Max pooling is written as the maximum of four views, of which the compiler makes much
faster code than of `max_pool2d`.
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
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy


class Pool(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        above, below = x[..., ::2, :], x[..., 1::2, :]
        rows = torch.maximum(above, below)
        return torch.maximum(rows[..., ::2], rows[..., 1::2])


def build(
    args: Namespace, clients: list[int], weights: list[Tensor], total: list[Tensor]
) -> Callable[[], None]:
    """One process's part of a round: from `weights`, the sum of its clients' models in `total`."""
    torch.set_num_threads(1)
    images, labels = torch_data(args.cohort, args.learnable)
    images, labels = images[clients], labels[clients]
    model = torch_model(args.model)
    model[1] = model[4] = Pool()
    names = [name for name, _ in model.named_parameters()]
    batches = [torch_batches(labels.shape[1], args.steps, args.batch, j) for j in clients]
    which = torch.arange(len(clients))[:, None]

    def loss(own: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, own, x), y)

    @torch.compile
    def step(own: dict[str, Tensor], index: Tensor) -> None:
        slopes = vmap(grad(loss))(own, images[which, index], labels[which, index])
        for name, slope in slopes.items():
            own[name].sub_(RATE * slope)

    def copies() -> dict[str, Tensor]:
        return {
            name: shared.expand(len(clients), *shared.shape).contiguous()
            for name, shared in zip(names, weights, strict=True)
        }

    @torch.no_grad()
    def run() -> None:
        own = copies()
        for index in torch.stack([next(each) for each in batches], dim=1):
            step(own, index)
        for shared, all_clients in zip(total, own.values(), strict=True):
            torch.sum(all_clients, 0, out=shared)

    with torch.no_grad():
        step(copies(), torch.zeros(len(clients), args.batch, dtype=torch.int64))
    return run


if __name__ == "__main__":
    torch_main(build, arguments(__doc__, processes=2))
