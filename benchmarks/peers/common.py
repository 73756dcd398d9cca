"""What the peers share: the job, its data, the model for PyTorch, and the line protocol.

A worker sets itself up, prints `ready`, then runs one round for each line `go` on stdin and
prints {"seconds": wall, "cpu": CPU seconds of all its processes}; `stop` or EOF ends it. In one
round K clients start from the same weights, each takes E plain SGD steps on its own random
mini-batches, and the server averages. With --learnable the labels can be learned and each line
also has the loss on fixed images, taken outside the clock: it must fall from round to round.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

import numpy as np

RATE = 0.01
SAMPLES = 2000  # over all clients
MODELS = {  # filters of both 5x5 convolutions, their zero padding, hidden units
    "cnn-small": ((10, 20), 0, 50),
    "cnn-mcmahan": ((32, 64), 2, 512),
}


def arguments(doc: str | None, **options: Any) -> argparse.Namespace:
    """The options of every worker, and the given ones with their defaults.

    A tuple as default lists the choices, the first being the default.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=MODELS, default="cnn-small")
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--cohort", type=int, default=10, help="clients in a round")
    parser.add_argument("--steps", type=int, default=20, help="SGD steps of a client in a round")
    parser.add_argument("--learnable", action="store_true", help="print the loss as well")
    for name, default in options.items():
        if isinstance(default, tuple):
            parser.add_argument(f"--{name}", choices=default, default=default[0])
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


def data(clients: int, learnable: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Images (clients, samples, 28, 28, 1) in float32, and labels (clients, samples)."""
    rng = np.random.default_rng(0)
    shape = (clients, SAMPLES // clients)
    labels = rng.integers(0, 10, shape)
    images = rng.random((*shape, 28, 28, 1), dtype=np.float32)
    if learnable:  # each class its own picture, under noise
        images = 4 * rng.random((10, 28, 28, 1), dtype=np.float32)[labels] + images - 2.5
    return images, labels


def shares(clients: int, processes: int) -> list[list[int]]:
    """The clients of each process, as even as can be."""
    return [part.tolist() for part in np.array_split(np.arange(clients), processes)]


def serve(run: Callable[[], float], loss: Callable[[], float] | None = None) -> None:
    """Run a round per line `go`; `run` returns the CPU seconds that other processes used."""
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() != "go":
            break
        wall, cpu = time.perf_counter(), time.process_time()
        others = run()
        seconds = time.perf_counter() - wall
        answer = {"seconds": seconds, "cpu": time.process_time() - cpu + others}
        if loss is not None:
            answer["loss"] = loss()
        print(json.dumps(answer), flush=True)


class Team:
    """Processes that stay up and each do their share of every round.

    `build(*arguments)` is called once in each process and returns its part of the round. The
    processes are set up one after the other, so that what one compiles the next finds cached.
    """

    def __init__(self, build: Callable[..., Callable[[], None]], jobs: Iterable[tuple]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for job in jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, build, job), daemon=True)
            process.start()
            theirs.close()
            ours.recv()
            self.pipes.append(ours)
            self.processes.append(process)

    def round(self) -> float:
        """All shares at once; the CPU seconds they took."""
        for pipe in self.pipes:
            pipe.send("go")
        return sum(pipe.recv() for pipe in self.pipes)

    def stop(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join()


def _work(pipe: Any, build: Callable[..., Callable[[], None]], job: tuple) -> None:
    run = build(*job)
    pipe.send("ready")
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        begin = time.process_time()
        run()
        pipe.send(time.process_time() - begin)


def private_stdout() -> TextIO:
    """Our own way to stdout; what others print, in any process, goes to stderr from now on."""
    ours = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return ours


# For the peers that use PyTorch.


def torch_model(name: str) -> Any:
    """The model as a user writes it, with weights that are the same in every process."""
    import torch
    from torch import nn

    (first, second), padding, hidden = MODELS[name]
    side = 7 if padding else 4
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, first, 5, padding=padding),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(first, second, 5, padding=padding),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(second * side**2, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 10),
    )


def torch_data(clients: int, learnable: bool = False) -> tuple[Any, Any]:
    """`data` as tensors, channels first."""
    import torch

    images, labels = data(clients, learnable)
    return torch.from_numpy(images).movedim(-1, 2).contiguous(), torch.from_numpy(labels)


def torch_batches(samples: int, steps: int, batch: int, seed: int) -> Iterator[Any]:
    """For each round, which of a client's samples make up its batches: (steps, batch)."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(samples, (steps, batch), generator=generator)


def torch_main(build: Callable[..., Callable[[], None]], args: argparse.Namespace) -> None:
    """Serves rounds in which processes train their clients and the server averages; weights
    and sums travel through shared memory."""
    import torch

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


def torch_loss(model: Any, learnable: bool) -> Callable[[], float] | None:
    """The loss on fixed images, if they can be learned."""
    import torch

    images, labels = torch_data(10, learnable=True)

    def loss() -> float:
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(model(images[0]), labels[0]).item()

    return loss if learnable else None
