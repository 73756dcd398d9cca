"""Run a sweep on a SLURM cluster: workers are jobs that end with the sweep.

    pip install 'fedcell[cluster]'
    python 8_slurm.py mine.toml --jobs 20 --queue short --walltime 02:00:00

Run it on a machine that may submit jobs and stays on, for example a login node under tmux. Store
and data must be visible to all nodes. Other jobs repeat the trainings of a job that SLURM ends. The
same command resumes. `--queue-system local` runs it without SLURM on this machine.
"""

import argparse
from pathlib import Path
from typing import Any

from fedcell.experiments.executors import DaskCluster
from fedcell.experiments.experiment import load_experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep


def workers_of(asked: argparse.Namespace) -> Any:
    """Return the cluster: each job is one worker with one thread."""
    one = {"cores": 1, "processes": 1, "memory": asked.memory}
    if asked.queue_system == "local":
        from dask_jobqueue.local import LocalCluster

        return LocalCluster(**one)
    from dask_jobqueue.slurm import SLURMCluster

    return SLURMCluster(**one, queue=asked.queue, walltime=asked.walltime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--out", type=Path, default=Path("sweep"))
    parser.add_argument("--store", type=Path, default=Path("fedcell-runs"))
    parser.add_argument("--data-dir", type=Path, help="the same path on all nodes")
    parser.add_argument("--jobs", type=int, default=10, help="workers")
    parser.add_argument("--memory", default="2GB", help="of a worker")
    parser.add_argument("--queue", help="SLURM's partition")
    parser.add_argument("--walltime", default="01:00:00", help="of a job, longer than a training")
    parser.add_argument("--queue-system", choices=("slurm", "local"), default="slurm")
    asked = parser.parse_args()
    experiment = load_experiment(asked.experiment)  # errors are found before a job is requested
    with workers_of(asked) as cluster:
        cluster.scale(jobs=asked.jobs)
        engine = DaskCluster(cluster)
        result = run_sweep(experiment, Store(asked.store), engine, data_dir=asked.data_dir)
        engine.client.close()
    result.save(asked.out)
    print(result)


if __name__ == "__main__":
    main()
