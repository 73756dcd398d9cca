"""fedcell's engine on the job of the peers: threads instead of processes."""

import numpy as np
from common import RATE, arguments, data, serve

from fedcell.learning.aggregate import aggregate
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.engines.engine import Engine
from fedcell.learning.learner import LocalTraining
from fedcell.learning.neural import NeuralNetwork
from fedcell.learning.partition.make import Partition
from fedcell.scenario.learning import MODELS


def main() -> None:
    args = arguments(__doc__, threads=2)
    images, labels = data(args.cohort, args.learnable)
    x, y = images.reshape(-1, *images.shape[2:]), labels.reshape(-1)
    dataset = Dataset.of(x_train=x, y_train=y, x_test=x[:200], y_test=y[:200])
    network = NeuralNetwork.of(MODELS[args.model], dataset.image, 10)
    each = np.full(args.cohort, labels.shape[1])
    partition = Partition(np.arange(y.size), np.append(0, each.cumsum()))
    training = LocalTraining(args.batch, args.steps, None, RATE)
    engine = Engine(network, dataset, partition, training, threads=args.threads)
    engine.warm_up()
    model, clients, turn = engine.start(), list(range(args.cohort)), 0
    shares = each / each.sum()

    def run() -> float:
        nonlocal model, turn
        uploads = engine.train(model, clients, turn)
        model, _ = aggregate("mean", model, clients, [1] * len(clients), uploads, shares, turn)
        turn += 1
        return 0.0

    serve(run, (lambda: engine.evaluate(model).test_loss) if args.learnable else None)


if __name__ == "__main__":
    main()
