"""LoRA: train and upload low-rank adapters of a frozen PyTorch module; PyTorch loads at first use.

Sizes and seconds of uploads need no PyTorch.
"""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.learning.lora.layers import LoRAEmbedding as LoRAEmbedding
    from fedcell.learning.lora.layers import LoRALinear as LoRALinear
    from fedcell.learning.lora.layers import LowRank as LowRank
    from fedcell.learning.lora.layers import adapted_matrices as adapted_matrices
    from fedcell.learning.lora.layers import apply_lora as apply_lora
    from fedcell.learning.lora.layers import merge_lora as merge_lora
    from fedcell.learning.lora.ranks import RankedLearner as RankedLearner
    from fedcell.learning.lora.ranks import with_ranks as with_ranks
    from fedcell.learning.lora.sizes import MODELS as MODELS
    from fedcell.learning.lora.sizes import AdaptedModel as AdaptedModel
    from fedcell.learning.lora.sizes import AdapterTable as AdapterTable
    from fedcell.learning.lora.sizes import Matrix as Matrix
    from fedcell.learning.lora.sizes import adapter_bits as adapter_bits
    from fedcell.learning.lora.sizes import adapter_table as adapter_table
    from fedcell.learning.lora.sizes import adapter_weights as adapter_weights

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.learning.lora.layers": [
            "LoRAEmbedding",
            "LoRALinear",
            "LowRank",
            "adapted_matrices",
            "apply_lora",
            "merge_lora",
        ],
        "fedcell.learning.lora.ranks": ["RankedLearner", "with_ranks"],
        "fedcell.learning.lora.sizes": [
            "MODELS",
            "AdaptedModel",
            "AdapterTable",
            "Matrix",
            "adapter_bits",
            "adapter_table",
            "adapter_weights",
        ],
    },
)
