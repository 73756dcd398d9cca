"""One module for each command, named after it and imported when the command is called."""

from collections.abc import Mapping

# In the order of the help. The first sentence of each command's own help, which a test compares,
# so that `fedcell --help` imports no command.
COMMANDS: Mapping[str, str] = {
    "demo": "Run a pilot, a plan and a training of the scenario digits, in under two minutes.",
    "scenario": "Print a shipped scenario file, commented, to start your own from.",
    "partition": "Show how a scenario deals its training data to the clients.",
    "pilot": "Measure by short trials how many rounds training takes, near the likely plan.",
    "plan": "Plan before training: clients a round, steps of each, time and energy.",
    "studio": "Open a local page: plans while you move sliders, and runs while they go on.",
    "run": "Train a scenario's model over its cell: loss against rounds, seconds and joules.",
    "runs": "List runs side by side: settings, progress and costs.",
    "export": "Write the trained model of a run for PyTorch (.pt) or NumPy (.npz).",
    "deploy": "Run a scenario or a plan on a real Flower federation on this machine.",
    "exchanges": "Show what each device of a federation did, modelled and measured.",
    "testbed": "Run a federation over shaped links of this machine; compare uploads with the "
    "model.",
    "devices": "List devices and radios that are known by name, with the source of every number.",
    "fit-device": "Fit a device to measurements of seconds and joules at several clocks and batch "
    "sizes.",
    "cost": "Price rounds by Monte Carlo: policies side by side, with common random numbers.",
    "schedule": "Schedule one round: band share and CPU frequency of each client.",
    "validate": "Compare a pilot's predictions with trials that it has not seen.",
    "compare": "Compare selectors and policies: rounds, seconds and joules to a target, and who "
    "wins.",
    "sweep": "Run an experiment: every setting of its lists on all seeds, each training once.",
    "reproduce": "Reproduce figures of the paper: run, draw, and check its claims.",
    "figure": "Draw a run, several seeds or a sweep from its folder, without a simulation.",
    "data": "Write data with real devices in it from an installed package, as an .npz with owners.",
    "constants": "Measure Theorem 1's constants along a training: L, mu, lambda, C_1, ...",
}
