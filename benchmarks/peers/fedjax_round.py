"""FedJAX: its federated averaging on its jit backend, the default one.

FedJAX 0.0.17 calls names that JAX has dropped since: `jax.tree_map` is put back before it is
imported. (Its pmap backend needs more: it relies on shapes that JAX no longer gives.) Set up as
its users do: client data sets that shuffle, repeat and batch, a Haiku model, `model_grad`, and
the algorithm of fedjax.algorithms. In its favour: two processes of one thread each share the
cohort, their means being averaged through shared memory: faster than its own one process with
all threads (--processes 1), above all on the larger model; max pooling is the maximum of four
views, whose gradient is faster here than that of `hk.max_pool`; compiling is over before `ready`.
"""

import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from common import MODELS, RATE, Team, arguments, data, serve, shares


def haiku_model(name: str) -> tuple[Any, Any]:
    """FedJAX itself, and the model for it."""
    import jax

    jax.tree_map = jax.tree_util.tree_map

    import fedjax
    import haiku as hk
    from jax.numpy import maximum

    (first, second), padding, hidden = MODELS[name]

    def block(x: jax.Array, filters: int) -> jax.Array:
        x = hk.Conv2D(filters, 5, padding="SAME" if padding else "VALID")(x)
        rows = maximum(x[:, ::2], x[:, 1::2])
        return jax.nn.relu(maximum(rows[:, :, ::2], rows[:, :, 1::2]))

    def forward(batch: dict[str, jax.Array]) -> jax.Array:
        x = hk.Flatten()(block(block(batch["x"], first), second))
        return hk.Linear(10)(jax.nn.relu(hk.Linear(hidden)(x)))

    return fedjax, fedjax.create_model_from_haiku(
        hk.transform(forward),
        {"x": np.zeros((1, 28, 28, 1), np.float32)},
        lambda batch, out: fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], out),
    )


def slots(memory: Any, like: list[Any]) -> Iterator[np.ndarray]:
    """Shared memory seen as arrays of the given shapes."""
    flat = np.frombuffer(memory, np.float32)
    for leaf in like:
        yield flat[: leaf.size].reshape(leaf.shape)
        flat = flat[leaf.size :]


def build(args: Namespace, clients: list[int], weights: Any, total: Any) -> Callable[[], None]:
    """One process's part of a round: from `weights`, the sum of its clients' models in `total`."""
    fedjax, model = haiku_model(args.model)
    import jax

    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        fedjax.model_grad(model),
        fedjax.optimizers.sgd(RATE),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(args.batch, num_epochs=None, num_steps=args.steps),
    )
    images, labels = data(args.cohort, args.learnable)
    sets = [fedjax.ClientDataset({"x": images[j], "y": labels[j]}) for j in clients]
    leaves, tree = jax.tree.flatten(model.init(jax.random.PRNGKey(0)))
    ours, sums = list(slots(weights, leaves)), list(slots(total, leaves))
    for shared, leaf in zip(ours, leaves, strict=True):  # all processes write the same
        shared[...] = leaf
    rounds = count()

    def run() -> None:
        keys = jax.random.split(jax.random.PRNGKey(next(rounds)), len(clients))
        cohort = [(str(j), s, key) for j, s, key in zip(clients, sets, keys, strict=True)]
        state = algorithm.init(jax.tree.unflatten(tree, [jax.numpy.array(w) for w in ours]))
        state, _ = algorithm.apply(state, cohort)
        for shared, leaf in zip(sums, jax.tree.leaves(state.params), strict=True):
            np.multiply(leaf, len(clients), out=shared)

    return run


def size(name: str) -> int:
    """How many weights the model has."""
    (first, second), padding, hidden = MODELS[name]
    flat = second * (7 if padding else 4) ** 2
    return 26 * first + (25 * first + 1) * second + (flat + 1) * hidden + (hidden + 1) * 10


def loss_of(args: Namespace, weights: Any) -> Callable[[], float]:
    _, model = haiku_model(args.model)
    import jax

    leaves, tree = jax.tree.flatten(model.init(jax.random.PRNGKey(0)))
    images, labels = data(10, learnable=True)

    def loss() -> float:
        now = [np.array(w) for w in slots(weights, leaves)]
        out = model.apply_for_eval(jax.tree.unflatten(tree, now), {"x": images[0]})
        return float(model.train_loss({"y": labels[0]}, out).mean())

    return loss


def main() -> None:
    args = arguments(__doc__, processes=2)
    os.environ["JAX_PLATFORMS"] = "cpu"
    if args.processes > 1:
        os.environ["NPROC"] = "1"  # the threads of XLA
    parts = shares(args.cohort, args.processes)
    weights, *totals = [RawArray("f", size(args.model)) for _ in range(len(parts) + 1)]
    team = Team(build, [(args, c, weights, t) for c, t in zip(parts, totals, strict=True)])
    flat, *sums = [np.frombuffer(memory, np.float32) for memory in (weights, *totals)]

    def run() -> float:
        cpu = team.round()
        np.divide(sum(sums), args.cohort, out=flat)
        return cpu

    run()
    serve(run, loss_of(args, weights) if args.learnable else None)
    team.stop()


if __name__ == "__main__":
    main()
