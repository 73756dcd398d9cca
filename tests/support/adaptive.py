"""Runs of known laws, for controllers."""

import numpy as np

from fedcell import Observer
from fedcell.core.files.formats import as_json
from fedcell.planning.adaptive.decision import choose_change, remaining_run
from fedcell.planning.adaptive.posterior import SHAPE, end_of, level_of, share_of_way
from fedcell.planning.pilot.candidates import CandidateSettings
from fedcell.planning.setting import Setting

POLICY = ["optimal-staged"]


def lattice(costs=None, gamma=0.0):
    """K of 1, 2, 4, 8, 16, 32 with E_l of 5, 10, 20, 40, 80."""
    k, e = (x.ravel() for x in np.meshgrid(2 ** np.arange(6), 5 * 2 ** np.arange(5), indexing="ij"))
    found = np.ones(k.size) if costs is None else costs(k, e)
    return CandidateSettings(k, e, gamma, "independent", np.asarray(found, float))


def place(settings, cohort, steps):
    found = settings.index_of(Setting(cohort, steps, settings.loss_rate))
    assert found is not None
    return found


def losses_of(settings, log_rounds, places, shape=SHAPE, first=2.0, target=0.2, noise=0.0):
    """Losses as the model of a run has them, with noise of their logarithm."""
    way, effective = np.log(first / target), np.exp(settings.coordinates[:, 0])
    speed = end_of(shape, effective, way) * np.exp(-log_rounds)
    stage = speed[places].cumsum()
    luck = noise * np.random.default_rng(1).standard_normal(len(places))
    logs = way * share_of_way(shape, stage) - level_of(shape, effective[places], way)
    return first * np.exp(-logs + luck), stage


def changed(stands, settings, now, every, hold, start=None, reluctance=1.0):
    """The change that is chosen, from a run that began with `start`: with `now`, if left out."""
    start = now if start is None else start
    rest = remaining_run(stands, settings, now, every, hold, start)
    return choose_change(rest, now, start, every, reluctance)


def files(folder):
    names = ("ledger.csv", "clients.csv", "history.csv", "changes.csv", "summary.json")
    with np.load(folder / "checkpoint.npz") as saved:
        return [saved["model"].tobytes(), *((folder / name).read_bytes() for name in names)]


def said(result):
    """The outcome as JSON, in which a missing score equals another."""
    return as_json(result.to_dict())


def stop_after(rounds):
    def each(report):
        if report.round == rounds:
            raise KeyboardInterrupt

    return Observer(round=each)
