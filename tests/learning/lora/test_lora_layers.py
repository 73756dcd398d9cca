"""Adapters in PyTorch modules: what they compute, what trains, what travels, what is exported."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from fedcell import Learning, Scenario, run
from fedcell.errors import BadInput
from fedcell.simulation.compute import Compute

pytestmark = pytest.mark.extras
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from fedcell.learning import TorchData, learner_from_torch  # noqa: E402
from fedcell.learning.lora import (  # noqa: E402
    LoRAEmbedding,
    LoRALinear,
    adapted_matrices,
    adapter_bits,
    apply_lora,
    merge_lora,
    with_ranks,
)

WORLD = Scenario(learning=Learning(rate=0.1)).using(
    clients={"count": 3}, plan={"cohort": 3, "local_steps": 4, "rounds": 3}, task={"batch_size": 4}
)


class Block(nn.Module):
    """Embeds tokens, mixes them, and returns an object with `logits`, as Hugging Face models do."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.q_proj = nn.Linear(6, 8)
        self.v_proj = nn.Linear(6, 8, bias=False)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        mixed = torch.tanh(self.q_proj(x)) * self.v_proj(x)
        return SimpleNamespace(logits=self.head(self.norm(mixed)).mean(1))


def block(seed=0):
    torch.manual_seed(seed)
    return Block()


def randomised(module, seed=1):
    """Give adapters that are not zero."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.5)
    return module


def of_logits(outputs, y):
    return nn.functional.cross_entropy(outputs.logits, y, reduction="none")


def data(samples=60, seed=3):
    rng = np.random.Generator(np.random.PCG64(seed))
    x, y = (
        torch.tensor(rng.integers(0, 11, (samples, 4))),
        torch.tensor(rng.integers(0, 5, samples)),
    )
    return TorchData((x, y), (x, y), owners=np.arange(samples) % 3)


TOKENS = torch.tensor([[1, 2, 0, 10], [3, 3, 0, 7]])


def test_a_module_begins_as_it_was():
    module = block().eval()
    before = module(TOKENS).logits
    apply_lora(module, 2, targets=["embed", "q_proj", "v_proj"])
    assert torch.equal(module(TOKENS).logits, before)


@pytest.mark.parametrize("rank", [1, 3])
def test_outputs_are_those_of_the_weight_with_its_product(rank):
    linear, x = nn.Linear(6, 4), torch.randn(2, 5, 6)
    layer = randomised(LoRALinear(linear, rank, alpha=5.0))
    down, up = layer.adapter.down, layer.adapter.up
    assert (down.shape, up.shape) == ((rank, 6), (4, rank))
    whole = linear.weight + 5.0 / rank * up @ down
    assert torch.allclose(layer(x), nn.functional.linear(x, whole, linear.bias), atol=1e-5)
    assert torch.allclose(layer.weight, whole, atol=1e-6)
    table, index = nn.Embedding(9, 4), torch.tensor([[0, 8], [3, 3]])
    layer = randomised(LoRAEmbedding(table, rank, alpha=5.0))
    whole = table.weight + (5.0 / rank * layer.adapter.up @ layer.adapter.down).T
    assert torch.allclose(layer(index), whole[index], atol=1e-5)
    assert torch.allclose(layer.weight, whole, atol=1e-6)


def test_only_adapters_train_and_travel():
    module = apply_lora(block(), 2, targets=["q_proj", "v_proj"])
    named = [name for name, p in module.named_parameters() if p.requires_grad]
    assert named == [f"{q}_proj.adapter.{part}" for q in "qv" for part in ("down", "up")]
    learner = learner_from_torch(module, data(), WORLD, loss=of_logits)
    weights = 2 * 2 * (6 + 8)
    assert learner.start().size == weights
    assert learner.model_bits == adapter_bits(adapted_matrices(module), 2, bits=32) == 32 * weights
    first = learner.start()
    (upload,) = learner.train(first, [0], 0)
    assert np.abs(upload - first).max() > 0


def test_the_vector_of_padding_stays():
    module = apply_lora(block(), 2, targets=["embed"])
    learner = learner_from_torch(module, data(), WORLD, loss=of_logits)
    before = module.embed.base.weight[0].clone()
    (upload,) = learner.train(learner.start(), [0], 0)
    learner.parts.load(upload)
    assert torch.equal(module.embed(torch.tensor([0]))[0], before)
    assert not torch.equal(module.embed.weight[1], module.embed.base.weight[1])


@pytest.mark.parametrize("targets", [None, ["embed", "q_proj"], ["v_proj"]])
def test_a_merged_module_is_plain_and_computes_the_same(targets):
    plain = block()
    module = randomised(apply_lora(copy.deepcopy(plain), 2, targets=targets))
    before = copy.deepcopy(module.state_dict())
    merged = merge_lora(module)
    assert list(merged.state_dict()) == list(plain.state_dict())
    assert [type(p) for p in merged.modules()] == [type(p) for p in plain.modules()]
    assert torch.allclose(merged(TOKENS).logits, module(TOKENS).logits, atol=1e-5)
    assert not torch.allclose(plain(TOKENS).logits, module(TOKENS).logits, atol=1e-3)
    assert all(torch.equal(a, before[name]) for name, a in module.state_dict().items())
    assert all(p.requires_grad for p in merged.parameters())
    block().load_state_dict(merged.state_dict())


def test_merging_leaves_a_shared_weight_alone():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(self.embed(x))

    module = randomised(apply_lora(Tied(), 2, targets=["embed"]))
    merged, x = merge_lora(module), torch.tensor([1, 5])
    assert torch.allclose(merged(x), module(x), atol=1e-5)
    assert torch.equal(merged.head.weight, module.head.weight)


def test_a_layer_whose_weight_is_read_elsewhere_is_adapted_as_well():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    targets = ["linear1", "linear2", "self_attn.out_proj"]
    module = randomised(apply_lora(encoder, 2, targets=targets))
    for mode in (module.train(), module.eval()):  # in evaluation torch reads the weights itself
        with torch.no_grad():
            assert torch.allclose(mode(x), merge_lora(module).eval()(x), atol=1e-5)
    module.train()(x).square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in module.parameters() if p.requires_grad)


def test_a_head_may_train_as_a_whole():
    module = apply_lora(block(), 2, targets=["q_proj"], train=["head", "norm"])
    named = {name.split(".")[0] for name, p in module.named_parameters() if p.requires_grad}
    assert named == {"q_proj", "head", "norm"}
    every = apply_lora(block(), 2, train=["head"])
    assert [m.name for m in adapted_matrices(every)] == ["q_proj", "v_proj"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rank": 7, "targets": ["q_proj"]}, "rank = 7: q_proj has 6 inputs and 8 outputs"),
        ({"rank": 0}, "from 1 to 6"),
        (
            {"rank": 2, "targets": ["k_proj"]},
            "target 'k_proj' is no layer of the module: it has em",
        ),
        ({"rank": 2, "targets": ["norm"]}, "target norm is a LayerNorm: adapters are for"),
        ({"rank": 2, "targets": "q_proj"}, "lists of names"),
        ({"rank": 2, "targets": []}, "no layer gets an adapter"),
        ({"rank": 2, "targets": ["head"], "train": ["head"]}, "head trains as a whole"),
    ],
)
def test_targets_that_cannot_be_adapted_are_refused(options, why):
    module = block()
    before = [type(part) for part in module.modules()]
    with pytest.raises(BadInput, match=why):
        apply_lora(module, **options)
    assert [type(part) for part in module.modules()] == before
    assert all(p.requires_grad for p in module.parameters())


def test_adapters_on_adapters_are_refused():
    module = apply_lora(block(), 2, targets=["q_proj"])
    with pytest.raises(BadInput, match="the module has adapters"):
        apply_lora(module, 2, targets=["v_proj"])


def ranked(ranks, seed=0, optimizer=None):
    module = randomised(apply_lora(block(seed), 4, targets=["embed", "q_proj"], train=["head"]))
    learner = learner_from_torch(module, data(), WORLD, loss=of_logits, optimizer=optimizer)
    return module, with_ranks(learner, ranks), learner


def test_clients_of_full_rank_train_as_before():
    _, mine, plain = ranked([4, 4, 4])
    first = plain.start()
    for a, b in zip(mine.train(first, [0, 2], 1), plain.train(first, [0, 2], 1), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "optimizer", [None, lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.5)]
)
def test_a_smaller_rank_changes_only_its_slice(optimizer):
    module, learner, _ = ranked([1, 2, 4], optimizer=optimizer)
    first = learner.start()
    for client, rank in ((0, 1), (1, 2), (2, 4)):
        (upload,) = learner.train(first, [client], 0)
        learner.parts.load(upload - first)  # the update, in the shapes of the module
        low = module.q_proj.adapter
        assert torch.all(low.down[rank:] == 0)
        assert torch.all(low.up[:, rank:] == 0)
        assert torch.any(low.down[:rank] != 0)
        assert torch.any(low.up[:, :rank] != 0)
        assert torch.any(module.head.weight != 0)
        assert low.used == 4  # models are evaluated at full rank


def test_a_client_of_rank_r_trains_the_module_of_rank_r():
    """The slice is what a module with adapters of rank r and the same scale would become."""
    module, learner, _ = ranked([2, 2, 2])
    (upload,) = learner.train(learner.start(), [1], 0)
    small = block()
    apply_lora(small, 2, alpha=2 * 2.0, targets=["embed", "q_proj"], train=["head"])
    assert small.q_proj.adapter.scale == module.q_proj.adapter.scale == 2.0
    learner.parts.load(learner.start())
    with torch.no_grad():
        small.head.load_state_dict(module.head.state_dict())
        for name in ("embed", "q_proj"):
            low, cut = module.get_submodule(name).adapter, small.get_submodule(name).adapter
            cut.down.copy_(low.down[:2])
            cut.up.copy_(low.up[:, :2])
    alone = learner_from_torch(small, data(), WORLD, loss=of_logits)
    (own,) = alone.train(alone.start(), [1], 0)
    assert np.allclose(upload[learner.held(2)], own, atol=1e-6)


def test_uploads_of_ranks_have_their_sizes():
    _, learner, _ = ranked([1, 2, 4])
    head = 8 * 5 + 5
    each = [32 * (rank * (11 + 6) + rank * (6 + 8) + head) for rank in (1, 2, 4)]
    assert learner.upload_bits.tolist() == each
    assert learner.model_bits == max(each)


def test_ranks_are_averaged_as_updates_padded_with_zeros():
    def mine(*_):
        return ranked([1, 4, 4])[1]

    result = run(WORLD, ["even"], rounds=1, compute=Compute(learner=mine))
    learner = mine()
    first = learner.start()
    uploads = list(learner.train(first, [0, 1, 2], 0))
    mean = first + np.mean([upload - first for upload in uploads], 0)  # all have 20 samples
    assert np.allclose(result.state.model, mean, atol=1e-6)


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        ([1, 2], "2 ranks for 3 clients"),
        ([1, 2, 5], "client 2 has rank 5: expected a whole number from 1 to 4"),
        ([0, 2, 4], "client 0 has rank 0"),
        ([1, 2, 2.5], "client 2 has rank 2.5"),
    ],
)
def test_ranks_that_do_not_fit_are_refused(ranks, why):
    with pytest.raises(BadInput, match=why):
        ranked(ranks)


def test_ranks_need_adapters():
    learner = learner_from_torch(block(), data(), WORLD, loss=of_logits)
    with pytest.raises(BadInput, match="the module has no adapters"):
        with_ranks(learner, [1, 1, 1])


def test_a_model_with_logits_runs_and_is_exported():
    """The path of a Hugging Face model: token numbers in, an object with logits out."""

    def mine(scenario, seed):
        module = apply_lora(block(seed), 4, targets=["q_proj", "v_proj"], train=["head"])
        return learner_from_torch(
            module,
            data(),
            scenario,
            seed,
            loss=of_logits,
            metrics={"accuracy": (lambda out, y: (out.logits.argmax(-1) == y).float(), "higher")},
            optimizer=lambda p: torch.optim.AdamW(p, lr=0.02),
        )

    result = run(WORLD, ["even"], rounds=8, compute=Compute(learner=mine))
    ledger = result.ledgers["even"]
    assert ledger.train_loss[-1] < ledger.train_loss[0]
    assert 0 <= ledger.accuracy[-1] <= 1
    learner = mine(WORLD, 0)
    learner.parts.load(result.state.model)
    assert merge_lora(learner.module)(TOKENS).logits.shape == (2, 5)


def test_a_model_of_peft_trains_only_its_adapters():
    peft = pytest.importorskip("peft")
    module = peft.get_peft_model(block(), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    learner = learner_from_torch(module, data(), WORLD, loss=of_logits)
    assert learner.model_bits == 32 * 2 * (6 + 8)
    assert all("lora_" in name for name in learner.parts.names)


def test_a_model_of_transformers_trains_over_the_cell_and_is_merged():
    transformers = pytest.importorskip("transformers")
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(0)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=61, **shape, **heads))
    module = apply_lora(llama, 4, targets=["q_proj", "v_proj"])
    x = torch.randint(0, 61, (30, 9))
    learner = learner_from_torch(
        module,
        TorchData((x[:, :-1], x[:, 1:]), owners=np.arange(30) % 3),
        WORLD,
        loss=lambda out, y: nn.functional.cross_entropy(
            out.logits.transpose(1, 2), y, reduction="none"
        ),
    )
    assert learner.model_bits == 32 * 2 * 4 * ((32 + 32) + (32 + 16))
    first = learner.start()
    (upload,) = learner.train(first, [0], 0)
    learner.parts.load(upload)
    assert learner.evaluate(upload).train_loss < learner.evaluate(first).train_loss
    learner.parts.load(upload)
    assert torch.allclose(merge_lora(module)(x).logits, module(x).logits, atol=1e-5)
