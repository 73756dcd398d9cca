"""Sizes of adapters, against published numbers and shapes; no PyTorch is needed."""

import subprocess
import sys

import pytest

import fedcell.learning.lora as lora
from fedcell.errors import BadInput
from fedcell.learning.lora import MODELS, Matrix, adapter_bits, adapter_table, adapter_weights

BY_NAME = {model.name: model for model in MODELS}


def test_adapters_have_r_n_plus_m_weights():
    matrices = [Matrix("a", 30, 20), Matrix("b", 7, 5, count=3)]
    assert adapter_weights(matrices, 4) == 4 * (30 + 20) + 3 * 4 * (7 + 5)
    assert adapter_bits(matrices, 4, bits=8) == 8 * 344
    assert adapter_bits(iter(matrices), 4, bits=1) == 344


@pytest.mark.parametrize(
    ("name", "rank", "weights", "megabytes", "seconds"),
    [  # published or computed elsewhere: rank, weights in 1e6, MB and s at 1 Mb/s, at 16 bit
        ("Mistral-7B", 32, 13.6, 27.3, 218),
        ("Llama-3.2-1B", 16, 1.70, 3.4, 27),
        ("Qwen2.5-0.5B", 8, 0.54, 1.1, 8.65),
        ("RoBERTa-base", 8, 0.3, 0.6, 4.7),  # 0.3 M: Table 2 of the LoRA paper
        ("ViT-B", 8, 0.29, 0.6, 4.7),
    ],
)
def test_common_models_have_the_known_sizes(name, rank, weights, megabytes, seconds):
    (row,) = adapter_table(rates=[1e6], models=[BY_NAME[name]]).rows()
    assert row["rank"] == rank
    assert row["weights"] / 1e6 == pytest.approx(weights, rel=0.02)
    assert row["megabytes"] == pytest.approx(megabytes, rel=0.08)
    assert row["seconds_at_1e+06"] == pytest.approx(seconds, rel=0.02)


def test_shapes_follow_from_layers_width_and_heads():
    # Mistral-7B: 32 layers, width 4096, 8 heads of keys and values with 128 each.
    assert BY_NAME["Mistral-7B"].weights == 32 * 32 * ((4096 + 4096) + (4096 + 1024))
    assert BY_NAME["Llama-3.2-1B"].weights == 16 * 16 * ((2048 + 2048) + (2048 + 512))
    assert BY_NAME["Qwen2.5-0.5B"].weights == 24 * 8 * ((896 + 896) + (896 + 128))
    assert BY_NAME["ViT-B"].weights == 12 * 8 * 4 * 768
    assert all(model.shapes for model in MODELS)


def test_bits_and_rank_of_a_table_scale_it():
    usual = adapter_table(rates=[1e6, 1e7]).rows()
    one_bit = adapter_table(rates=[1e6], bits=1).rows()
    rank_1 = adapter_table(rank=1).rows()
    for a, b, c in zip(usual, one_bit, rank_1, strict=True):
        assert a["seconds_at_1e+06"] == pytest.approx(10 * a["seconds_at_1e+07"])
        assert b["seconds_at_1e+06"] == pytest.approx(a["seconds_at_1e+06"] / 16)
        assert c["weights"] * a["rank"] == a["weights"]
    assert str(adapter_table()).splitlines()[0].endswith("s at 1 Mb/s  s at 10 Mb/s")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: adapter_weights([Matrix("q", 8, 4)], 5), "rank = 5: q has 8 inputs and 4 outputs"),
        (lambda: adapter_weights([Matrix("q", 8, 4)], 0), "a whole number from 1 to 4"),
        (lambda: adapter_weights([Matrix("q", 8, 4)], 2.0), "a whole number from 1 to 4"),
        (lambda: adapter_bits([Matrix("q", 8, 4)], 2, 0), "bits = 0"),
        (lambda: adapter_table(rates=[0]), r"rates = \[0\]"),
        (lambda: adapter_table(rates=[]), r"rates = \[\]"),
        (lambda: adapter_table(bits=-1), "bits = -1"),
        (lambda: adapter_table(rank=1000), "rank = 1000: .* to 128"),
    ],
)
def test_impossible_sizes_are_refused(call, why):
    if "1000" in why:
        with pytest.raises(BadInput, match="rank = 1000"):
            call()
        return
    with pytest.raises(BadInput, match=why):
        call()


def test_the_table_needs_no_torch():
    code = (
        "import sys, fedcell.learning.lora as l; l.adapter_table(); print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    assert {"apply_lora", "merge_lora", "with_ranks", "adapter_table"} <= set(dir(lora))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = lora.nothing
