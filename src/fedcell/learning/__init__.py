"""Learning: data, partitions, models, local SGD and custom learners."""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.core.streams import Purpose as Purpose
    from fedcell.core.streams import stream as stream
    from fedcell.learning.custom import LearnerLike as LearnerLike
    from fedcell.learning.data.dataset import Dataset as Dataset
    from fedcell.learning.data.dataset import load_data as load_data
    from fedcell.learning.data.packaged.shakespeare import Role as Role
    from fedcell.learning.data.packaged.shakespeare import shakespeare_roles as shakespeare_roles
    from fedcell.learning.data.packaged.shakespeare import write_shakespeare as write_shakespeare
    from fedcell.learning.data.packaged.watch import WatchWindows as WatchWindows
    from fedcell.learning.data.packaged.watch import watch_windows as watch_windows
    from fedcell.learning.data.packaged.watch import write_watch as write_watch
    from fedcell.learning.data.plugins import DatasetFactory as DatasetFactory
    from fedcell.learning.data.testing import check_dataset as check_dataset
    from fedcell.learning.engines.engine import Engine as Engine
    from fedcell.learning.engines.quadratic import Quadratics as Quadratics
    from fedcell.learning.engines.torch import TorchLearner as TorchLearner
    from fedcell.learning.engines.torch import tensors as tensors
    from fedcell.learning.engines.torch_local import LocalOptimizer as LocalOptimizer
    from fedcell.learning.engines.torch_make import learner_from_torch as learner_from_torch
    from fedcell.learning.engines.torch_tasks import Metric as Metric
    from fedcell.learning.engines.torch_tasks import TorchData as TorchData
    from fedcell.learning.learner import Learner as Learner
    from fedcell.learning.learner import Scores as Scores
    from fedcell.learning.partition.make import Partition as Partition
    from fedcell.learning.partition.make import PartitionSummary as PartitionSummary
    from fedcell.learning.partition.plugins import PartitionRule as PartitionRule
    from fedcell.learning.partition.testing import check_partition as check_partition
    from fedcell.learning.partition_report import PartitionReport as PartitionReport
    from fedcell.learning.partition_report import describe_partition as describe_partition
    from fedcell.learning.setup import TrainingSetup as TrainingSetup
    from fedcell.learning.setup import prepare_training as prepare_training

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.core.streams": ["Purpose", "stream"],
        "fedcell.learning.custom": ["LearnerLike"],
        "fedcell.learning.data.dataset": ["Dataset", "load_data"],
        "fedcell.learning.data.packaged.shakespeare": [
            "Role",
            "shakespeare_roles",
            "write_shakespeare",
        ],
        "fedcell.learning.data.packaged.watch": ["WatchWindows", "watch_windows", "write_watch"],
        "fedcell.learning.data.plugins": ["DatasetFactory"],
        "fedcell.learning.data.testing": ["check_dataset"],
        "fedcell.learning.engines.engine": ["Engine"],
        "fedcell.learning.engines.quadratic": ["Quadratics"],
        "fedcell.learning.engines.torch": ["TorchLearner", "tensors"],
        "fedcell.learning.engines.torch_local": ["LocalOptimizer"],
        "fedcell.learning.engines.torch_make": ["learner_from_torch"],
        "fedcell.learning.engines.torch_tasks": ["Metric", "TorchData"],
        "fedcell.learning.learner": ["Learner", "Scores"],
        "fedcell.learning.partition.make": ["Partition", "PartitionSummary"],
        "fedcell.learning.partition.plugins": ["PartitionRule"],
        "fedcell.learning.partition.testing": ["check_partition"],
        "fedcell.learning.partition_report": ["PartitionReport", "describe_partition"],
        "fedcell.learning.setup": ["TrainingSetup", "prepare_training"],
    },
)
