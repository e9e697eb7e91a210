"""Models of `transformers` with adapters: exact per-record norms, and decoding with their cache."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from tests.models._builds import assert_bounds
from tests.models._texts import EVERY, Letters, encode_texts
from tests.privacy.definition import clipped_sum as definition
from trainables.config import SynthesisConfig, model_part
from trainables.errors import InvalidInput
from trainables.layers.bookkeeping import clipped_sum, unsupported_modules
from trainables.models._hub_lm import HubLm, load_lm, require_records_apart, save_lm, source_of


def llama(*, adapted: bool) -> HubLm:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    inner = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=Letters.size,
            hidden_size=24,
            intermediate_size=40,
            num_hidden_layers=2,
            num_attention_heads=3,
            num_key_value_heads=1,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        )
    )
    model = HubLm(inner, provenance="random")
    if adapted:
        model.adapt(rank=2, alpha=8.0)
        for name, parameter in model.named_parameters():
            if name.endswith("up.weight"):
                nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize("prompted", [False, True], ids=["plain", "prompted"])
def test_adapters_norms_equal_single_record_passes(prompted: bool) -> None:
    model = llama(adapted=True)
    assert unsupported_modules(model) == ()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert len(trained) == 2 * 7 * 2  # two thin matrices beside seven maps of two layers
    batch = encode_texts(prompted=prompted).batch(EVERY)
    size = sum(p.numel() for p in trained)
    arguments = {
        "unit_of_record": torch.arange(7),
        "num_units": 7,
        "weight_of_record": torch.ones(7),
        "group_scale": torch.ones(len(trained)),
    }
    truth, ours = torch.zeros(size), torch.zeros(size)
    norms = definition(model, batch, out=truth, max_grad_norm=0.1, **arguments)
    found = clipped_sum(model, batch, out=ours, max_grad_norm=0.1, **arguments)
    assert_bounds(found, norms)
    torch.testing.assert_close(ours, truth, rtol=1e-4, atol=1e-6)


def test_adapters_change_nothing_at_first() -> None:
    batch = encode_texts(prompted=True).batch(EVERY)
    plain, adapted = llama(adapted=False), llama(adapted=False)
    adapted.adapt(rank=2, alpha=8.0)
    torch.testing.assert_close(adapted.losses(batch), plain.losses(batch))


def test_a_state_holds_what_is_trained_and_loads() -> None:
    one, other = llama(adapted=True), llama(adapted=False)
    other.adapt(rank=2, alpha=8.0)
    state = one.state_dict()
    assert len(state) == 28
    assert all(name.endswith((".up.weight", ".down.weight")) for name in state)
    other.load_state_dict(state)
    batch = encode_texts(prompted=True).batch(EVERY)
    torch.testing.assert_close(other.losses(batch), one.losses(batch))
    whole = llama(adapted=False).state_dict()
    assert "inner.lm_head.weight" not in whole  # tied to the embedding, which is there


def test_losses_do_not_depend_on_the_batch() -> None:
    model, texts = llama(adapted=True), encode_texts(prompted=True)
    whole = model.losses(texts.batch(EVERY))
    part = model.losses(texts.batch(np.array([5, 2])))
    torch.testing.assert_close(part, whole[[5, 2]], rtol=1e-4, atol=1e-5)


def test_reading_token_by_token_gives_the_scores_of_a_whole_pass() -> None:
    model, texts = llama(adapted=True).eval(), encode_texts(prompted=False)
    batch = texts.batch(np.array([4]))
    going = model.begin(2, 40)
    losses = []
    for token, target in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        scores = going.read(torch.tensor([0, token]))
        losses.append(float(-scores[1].log_softmax(0)[target]))
        if len(losses) == 3:
            going.keep(torch.tensor([1, 1]))
    found = torch.tensor(losses)
    torch.testing.assert_close(found, model.token_losses(batch)[1].detach(), rtol=1e-4, atol=1e-4)


def test_a_model_that_is_no_gpt2_needs_adapters(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {"<end>": 0, "\n": 1, "a": 2, "b": 3}
    llama(adapted=False).inner.save_pretrained(tmp_path)
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="a")), eos_token="<end>"
    ).save_pretrained(tmp_path)
    config = model_part(name="causal_lm", encoder=str(tmp_path))
    with pytest.raises(InvalidInput, match=r"expected synthesis\.lora_rank with model\.encoder"):
        source_of(config, SynthesisConfig(), public=(), seed=0)
    with pytest.raises(InvalidInput, match=r"expected synthesis\.max_tokens <= 64 with model\.enc"):
        source_of(config, SynthesisConfig(lora_rank=2, max_tokens=65), public=(), seed=0)
    adapted = SynthesisConfig(lora_rank=2, max_tokens=64)
    source = source_of(config, adapted, public=(), seed=0)
    assert (source.tokenizer.end, source.tokenizer.separator) == (0, 1)
    # A folder of a trained one holds the adapters alone, and is loaded onto the same base.
    model = source.make()
    assert isinstance(model, HubLm)
    model.adapt(rank=2, alpha=adapted.lora_alpha)
    nn.init.normal_(next(p for p in model.parameters() if p.requires_grad))
    save_lm({"utterances": model}, source.tokenizer, tmp_path / "kept")
    assert (tmp_path / "kept" / "weights.safetensors").stat().st_size < 20_000
    again, _ = load_lm(tmp_path / "kept", ("utterances",), config, adapted)
    batch = encode_texts(prompted=False).batch(EVERY)
    torch.testing.assert_close(again["utterances"].losses(batch), model.losses(batch))


@pytest.mark.parametrize("kind", ["default", "dynamic"])
def test_positions_that_depend_on_the_longest_record_are_refused(kind: str) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    about = LlamaConfig(
        vocab_size=Letters.size, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=3, max_position_embeddings=16, initializer_range=0.3,
        rope_parameters={"rope_type": kind, "factor": 4.0, "rope_theta": 10_000.0},
    )  # fmt: skip
    model = HubLm(LlamaForCausalLM(about), provenance="random")
    require_records_apart(model, longest=16, name="x")
    if kind == "default":
        require_records_apart(model, longest=40, name="x")
        return
    with pytest.raises(InvalidInput, match=r"processes each record independently, got 'x'"):
        require_records_apart(model, longest=40, name="x")


def test_train_mode_leaves_foreign_modules_without_dropout() -> None:
    model = llama(adapted=True).train()
    assert model.training
    assert not any(module.training for module in model.inner.modules())
    assert not model.eval().training


class TimeFirst(nn.Module):
    """A language model whose map reads the first token of each record, then the second, ...; or,
    with `routed`, only some of the tokens, as experts do.
    """

    def __init__(self, *, routed: bool) -> None:
        super().__init__()
        self.config = SimpleNamespace(vocab_size=Letters.size)
        self.routed = routed
        self.table = nn.Embedding(Letters.size, 6)
        self.map = nn.Linear(6, 6)
        self.output = nn.Linear(6, Letters.size)

    @property
    def base_model(self) -> nn.Module:
        return self

    def get_output_embeddings(self) -> nn.Module:
        return self.output

    def forward(self, input_ids: torch.Tensor, **_: object) -> tuple[torch.Tensor]:
        x = self.table(input_ids).transpose(0, 1)
        if not self.routed:
            return ((x + self.map(x).tanh()).transpose(0, 1),)
        found = x.clone()
        found[:, :, 0] = self.map(x.flatten(0, 1)[1:])[..., :1].new_zeros(())
        return (found.transpose(0, 1),)


@pytest.mark.parametrize(
    ("routed", "line"),
    [
        (False, "one record after another"),
        (True, "read every token of a batch, got 14 rows for 15 tokens"),
    ],
)
def test_maps_whose_rows_are_not_known_are_refused(routed: bool, line: str) -> None:
    """A record's norm would be that of other rows, and its clipped gradient longer than C."""
    torch.manual_seed(0)
    model = HubLm(TimeFirst(routed=routed), provenance="weights of x")
    require_records_apart(model, longest=16, name="x")  # no record's loss changes
    with pytest.raises(InvalidInput, match=line):
        model.adapt(rank=2, alpha=8.0)
