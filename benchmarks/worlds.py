"""Draw random worlds for the evaluation of plans: a fleet, a cell, data, a skew, a target.

    python benchmarks/worlds.py digits 3        # prints a world as a scenario file

A world is drawn by its number: those below 100 are for tuning, the others for evaluation. Its
target is the loss of an average setting (a quarter of the clients, 20 steps) after ten to
fifty rounds, so that it can be reached, but not at once.
"""

import sys
from dataclasses import dataclass

import numpy as np

from fedcell import ClientTable, Scenario, load_scenario
from fedcell.experiments.jobs import TrainingJob, train
from fedcell.experiments.training import Training, Until

# Rough kinds of devices: kappa [J s^2], least and highest frequency [Hz], power [W/Hz].
KINDS = {
    "phone": (3e-28, 3e8, 2.4e9, 2e-7),
    "single-board computer": (1e-27, 6e8, 1.5e9, 1e-7),
    "microcontroller": (2e-26, 4e7, 2.4e8, 3e-8),
}


@dataclass(frozen=True)
class World:
    """A scenario with its target."""

    name: str
    scenario: Scenario


def draw_scenario(dataset, number):
    """A world without its target."""
    rng = np.random.default_rng([number, *dataset.encode()])
    count = int(rng.choice([20, 30, 50, 60, 100]))
    base = load_scenario("digits" if dataset == "digits" else "mnist")
    far = float(rng.choice([100, 200, 400]))
    cell = {
        "bandwidth": float(10 ** rng.uniform(6, 7.5)),
        "distance": (10.0, far) if rng.random() < 0.6 else float(far / 2),
        "path_loss_exponent": float(rng.choice([3.0, 3.5, 4.0])),
        "loss_rate": float(rng.choice([0.0, 0.0, 0.1, 0.3])),
        "broadcast_time": float(rng.choice([0.0, 10 ** rng.uniform(-1.5, 0.7)])),
    }
    partition = partition_of(rng)
    mixed = rng.random() < 0.6
    names = list(KINDS)
    kinds = rng.choice(names, count) if mixed else [str(rng.choice(names))] * count
    kappa, low, high, power = (np.array([KINDS[k][i] for k in kinds]) for i in range(4))
    slower = rng.uniform(0.8, 1.0, count)
    table = ClientTable(
        kappa=kappa * rng.uniform(0.7, 1.4, count),
        freq_min=low,
        freq_max=high * slower,
        power=power,
    )
    small = dataset == "digits"
    learning = {
        "dataset": dataset,
        "partition": partition,
        "rate": float(rng.choice([0.03, 0.1] if small else [0.01, 0.03, 0.1])),
        "evaluate_samples": 2000,
    }
    if not small:
        learning |= {"model": "cnn-small" if rng.random() < 0.7 else "mlp", "layers": None}
    return base.using(
        cell=cell,
        clients={"table": table},
        task={
            "batch_size": int(rng.choice([5, 10, 20])),
            "energy_weight": float(10 ** rng.uniform(-2, 1)),
            "samples_per_step": "batch",
        },
        plan={"cohort": max(1, count // 4), "local_steps": 20, "rounds": 400},
        learning=learning,
    )


def partition_of(rng):
    """Who holds which samples."""
    kind = rng.choice(
        ["iid", "shards", "pathological", "inner-dirichlet"], p=[0.15, 0.3, 0.3, 0.25]
    )
    found = {"kind": str(kind)}
    if kind == "shards":
        found["num_shards_per_partition"] = int(rng.choice([2, 3]))
    if kind == "pathological":
        found["num_classes_per_partition"] = int(rng.choice([2, 3, 4]))
    if kind == "inner-dirichlet":
        found["alpha"] = float(rng.choice([0.1, 0.3, 1.0]))
    if rng.random() < 0.4:
        found |= {"sizes": "lognormal", "sigma": 0.5}
    return found


def draw_world(dataset, number, data_dir=None):
    """A world with its target: what a middling setting reaches, found by one training of it."""
    scenario = draw_scenario(dataset, number)
    rng = np.random.default_rng([number, 7, *dataset.encode()])
    rounds = int(rng.integers(10, 50))
    middling = scenario.using(learning={"deliver": "last"})  # which says more of the world
    done = train(TrainingJob(Training.of(middling, 10_000 + number), Until(rounds), data_dir))
    if done.curve.diverged:
        raise RuntimeError(f"{dataset} {number} diverges at a middling setting")
    loss = float(np.mean(done.curve.train_loss[-5:]))
    return World(f"{dataset}-{number}", scenario.using(learning={"target": float(f"{loss:.3g}")}))


MIX = (  # what every ten hard worlds train
    *("digits", "logistic", "digits", "cifar10", "digits"),
    *("logistic", "digits", "mnist", "logistic", "cifar10"),
)


def kind_of(number):
    """What a hard world trains."""
    return MIX[number % len(MIX)]


def draw_hard_scenario(number, attempt=0):
    """A world without its target, harder than those of `draw_scenario`: up to 300 clients, slow
    processors, other optimisers, falling rates, dear or cheap joules."""
    rng = np.random.default_rng([number, attempt, 24])
    kind = kind_of(number)
    dataset = str(rng.choice(["digits", "mnist"])) if kind == "logistic" else kind
    small, cnn = dataset == "digits", kind in ("mnist", "cifar10")
    scenario = draw_scenario("digits" if small else "mnist", 10_000 + number + 1000 * attempt)
    count = int(rng.choice([20, 50, 100] if small else [30, 60, 100, 200, 300]))
    names = list(KINDS)
    kinds = rng.choice(names, count) if rng.random() < 0.6 else [str(rng.choice(names))] * count
    kappa, low, high, power = (np.array([KINDS[k][i] for k in kinds]) for i in range(4))
    slow = 0.1 if rng.random() < 0.3 else 1.0
    table = ClientTable(
        kappa=kappa * rng.uniform(0.7, 1.4, count),
        freq_min=low * slow,
        freq_max=high * slow * rng.uniform(0.8, 1.0, count),
        power=power,
    )
    partition = partition_of(rng)
    if kind == "cifar10":
        partition = {"kind": "shards", "num_shards_per_partition": int(rng.integers(2, 5))}
    rate = float(rng.choice([0.01, 0.03, 0.1] if kind != "cifar10" else [0.01, 0.03]))
    learning = {"dataset": dataset, "partition": partition, "rate": rate, "evaluate_samples": 5000}
    learning |= {"layers": None, "model": "logistic" if kind == "logistic" else "cnn-small"}
    if kind == "digits":
        learning |= {"model": "mlp"}
    if rng.random() < 0.25:
        learning |= {"optimiser": "adam", "rate": float(rng.choice([0.001, 0.003]))}
    elif rng.random() < 0.2:
        learning |= {"server": "momentum", "server_rate": 0.3}
    if rng.random() < 0.2:
        learning |= {"rate_decay": float(10 ** rng.uniform(-3.5, -2.5))}
    task = {"energy_weight": float(10 ** rng.uniform(-2, 1))}
    own = int(min(30, max(1, count // rng.choice([4, 10])))), int(rng.choice([5, 20]))
    return scenario.using(
        clients={"table": table},
        task=task,
        plan={"cohort": own[0], "local_steps": own[1], "rounds": 400},
        learning=learning,
    ), cnn


def draw_hard_world(number, data_dir=None):
    """A hard world with its target: a training loss, or an accuracy, that a middling setting
    reaches; drawn again where that setting diverges or learns next to nothing."""
    for attempt in range(10):
        scenario, _ = draw_hard_scenario(number, attempt)
        rng = np.random.default_rng([number, attempt, 25])
        rounds = int(rng.integers(15, 60))
        middling = scenario.with_plan(min(scenario.clients.count, int(rng.integers(5, 21))), 20)
        done = train(
            TrainingJob(
                Training.of(middling, 10_000 + number),
                Until(rounds, test_every_round=True),
                data_dir,
            )
        )
        losses, accuracies = done.curve.train_loss, done.curve.accuracies
        if done.curve.diverged or not np.mean(losses[-5:]) < 0.93 * losses[0]:
            continue
        if rng.random() < 0.3:
            goal = {"target_accuracy": float(f"{np.mean(accuracies[-5:]):.2g}"), "target": None}
        else:
            goal = {"target": float(f"{np.mean(losses[-5:]):.3g}")}
        return World(f"{kind_of(number)}-{number}", scenario.using(learning=goal))
    raise RuntimeError(f"world {number} has no target")


if __name__ == "__main__":
    from fedcell.core.files.formats import as_json
    from fedcell.scenario.save import to_tables

    hard = sys.argv[1] == "hard"
    world = draw_hard_world(int(sys.argv[2])) if hard else draw_world(sys.argv[1], int(sys.argv[2]))
    print(as_json(to_tables(world.scenario)))
