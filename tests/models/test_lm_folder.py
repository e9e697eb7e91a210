"""A trained LM's folder is enough to draw from, and one that is not whole is
refused.
"""

import json
import shutil
from functools import partial

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.encoders.family_folders import with_config
from tests.models._texts import EVERY, encode_texts, llama
from tests.refusals import refused
from trainables.config.trial import SynthesisConfig, model_part
from trainables.models.text.hub_lm import (
    Pretrained,
    load_lm,
    require_source,
    save_lm,
    source_of,
)
from trainables.models.text.tokenizers import train_bpe

SMALL = model_part(
    name="causal_lm", hidden_size=16, num_layers=1, num_heads=2, intermediate_size=24
)
SYNTHESIS = SynthesisConfig(max_tokens=48, vocabulary_size=300)


@pytest.fixture
def folder(tmp_path):
    tokenizer = train_bpe(["hello you", "hello there"], size=300)
    model = SMALL.build(vocabulary=tokenizer.size, positions=48, seed=0)
    save_lm({"utterances": model}, tokenizer, tmp_path / "model")
    return tmp_path / "model"


def read(folder, config=SMALL, synthesis=SYNTHESIS):
    models, tokenizer = load_lm(folder, ("utterances",), config, synthesis)
    return models["utterances"], tokenizer


def assert_reads(folder, model, config, synthesis):
    """It has the losses of `model`, with the tokenizer of `base_in`."""
    found, tokenizer = read(folder, config, synthesis)
    assert (tokenizer.end, tokenizer.separator) == (0, 1)
    batch = encode_texts(prompted=False).batch(EVERY)
    torch.testing.assert_close(found.losses(batch), model.eval().losses(batch))


def with_weights(change, name="model.safetensors"):
    def write(place):
        tensors = load_file(place / name)
        change(tensors)
        save_file(tensors, place / name, metadata={"format": "pt"})

    return write


kept_with = partial(with_weights, name="weights.safetensors")
NORM = "utterances.norm.weight"


def with_fewer_positions(folder):
    sizes = json.loads((folder / "sizes.json").read_text())
    sizes["utterances"]["positions"] = 40
    (folder / "sizes.json").write_text(json.dumps(sizes))


def written(name, data):
    return lambda folder: (folder / name).write_bytes(data) and None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (kept_with(lambda t: t.pop(NORM)), "of the model, got others"),
        (
            kept_with(lambda t: t.update({"utterances.more": torch.zeros(1)})),
            "of the model, got others",
        ),
        (kept_with(lambda t: t[NORM][0].fill_(torch.nan)), "expected finite weights"),
        (written("weights.safetensors", b"nothing"), "got none or a damaged file"),
        (written("sizes.json", b"{}"), "sizes of the stage utterances"),
        (
            written("sizes.json", b'{"utterances": {"vocabulary": 300, "width": "x"}}'),
            "sizes of",
        ),
        (written("sizes.json", b"[]"), "sizes of the stage utterances"),
        (written("sizes.json", b"{"), "got a damaged file"),
        (lambda folder: (folder / "sizes.json").unlink(), "cannot read .*sizes.json"),
        (
            with_fewer_positions,
            "expected synthesis.max_tokens <= 40, the positions in .*got 48",
        ),
        (
            written("tokenizer.json", b"{}"),
            "expected a tokenizer in .* got a damaged file",
        ),
        (
            lambda folder: (folder / "tokenizer.json").unlink(),
            r"a tokenizer \(tokenizer.json\)",
        ),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(change, match, folder):
    change(folder)
    with refused(match):
        read(folder)


def base_in(folder, *, seed=0, gpt2=False):
    """Weights and tokenizer as `transformers` keeps them."""
    from transformers import GPT2Config, GPT2LMHeadModel

    if gpt2:
        torch.manual_seed(seed)
        small = GPT2Config(
            vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=64
        )
        GPT2LMHeadModel(small).save_pretrained(folder)
    else:
        inner = llama().inner
        with torch.no_grad():
            next(inner.parameters()).add_(seed)
        inner.save_pretrained(folder)
    with_words({"<end>": 0, "\n": 1, "a": 2, "b": 3}, eos_token="<end>")(folder)


def trained_in(folder, *, base, rank):
    config = model_part(name="causal_lm", encoder=str(base))
    synthesis = SynthesisConfig(lora_rank=rank, max_tokens=48)
    source = source_of(config, synthesis, public=(), seed=0)
    model = source.make()
    if rank is not None:
        model.adapt(rank=rank, alpha=synthesis.lora_alpha)  # LmModule
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.1)
    save_lm({"utterances": model}, source.tokenizer, folder)
    return model, synthesis


@pytest.mark.parametrize("rank", [None, 2], ids=["whole", "adapters"])
def test_a_trained_gpt2_needs_nothing_but_its_folder(rank, tmp_path):
    base, kept = tmp_path / "gpt2", tmp_path / "kept"
    base_in(base, gpt2=True)
    model, synthesis = trained_in(kept, base=base, rank=rank)
    shutil.rmtree(base)
    assert_reads(
        kept, model, model_part(name="causal_lm", encoder=str(base)), synthesis
    )


def test_a_model_that_is_no_gpt2_needs_adapters(tmp_path):
    base_in(tmp_path)
    config = model_part(name="causal_lm", encoder=str(tmp_path))
    for synthesis, said in (
        (SynthesisConfig(), r"expected synthesis\.lora_rank with model\.encoder"),
        (
            SynthesisConfig(lora_rank=2, max_tokens=65),
            r"synthesis\.max_tokens <= 64 with model\.enc",
        ),
    ):
        with refused(said):
            source_of(config, synthesis, public=(), seed=0)
    source_of(config, SynthesisConfig(lora_rank=2, max_tokens=64), public=(), seed=0)


def test_adapters_say_which_weights_they_belong_on(tmp_path):
    base, kept = tmp_path / "llama", tmp_path / "kept"
    base_in(base)
    model, synthesis = trained_in(kept, base=base, rank=2)
    config = model_part(name="causal_lm", encoder=str(base))
    assert str(tmp_path) not in (kept / "base.json").read_text()
    assert (kept / "weights.safetensors").stat().st_size < 20_000, "the adapters alone"
    read(kept, config, synthesis)
    base.rename(tmp_path / "elsewhere")
    with refused(r"the weights that the adapters in .* belong on in .*"):
        read(kept, config, synthesis)
    shutil.copytree(tmp_path / "elsewhere", kept / "base")  # the folder may carry them
    assert_reads(kept, model, config, synthesis)
    shutil.rmtree(kept / "base")
    base_in(kept / "base", seed=1)
    with refused(r"the weights that .* were trained on, got others"):
        read(kept, config, synthesis)
    (kept / "base.json").unlink()
    with refused(r"expected the digest of the base in .*, got none"):
        read(kept, config, synthesis)


def test_the_hub_is_not_asked_for_what_a_folder_names(tmp_path, monkeypatch):
    """The folder may be another person's: a name in it is looked up in the cache
    alone.
    """
    asked = []

    def count(self, request, **options):
        asked.append(str(request.url))
        raise OSError("no network here")

    monkeypatch.setattr(type(huggingface_hub.get_session()), "send", count)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    base, kept = tmp_path / "llama", tmp_path / "kept"
    base_in(base)
    _, synthesis = trained_in(kept, base=base, rank=2)
    config = model_part(name="causal_lm", encoder="lab/llama")
    with refused(r"the hub is not asked .*hf download"):
        read(kept, config, synthesis)
    shutil.rmtree(kept / "tokenizer")
    with refused(r"expected a tokenizer beside the model in .*kept"):
        read(kept, config, synthesis)
    # The library asks for its own list of agents, whatever is loaded.
    assert [url for url in asked if not url.endswith("/api/agent-harnesses")] == []


@pytest.mark.parametrize("owner", ["tokenizer", "model"])
def test_code_in_a_folder_is_never_run(tmp_path, monkeypatch, owner):
    """Of another person's export too, whatever somebody at the terminal would
    answer.
    """
    place, mark = tmp_path / "foreign", tmp_path / "ran"
    base_in(place, gpt2=True)
    (place / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    name, changes = {
        "tokenizer": ("tokenizer_config.json", {"tokenizer_class": "Own"}),
        "model": ("config.json", {"model_type": "own", "architectures": ["Own"]}),
    }[owner]
    classes = {"AutoTokenizer": [None, "own.Own"], "AutoConfig": "own.Own"}
    classes["AutoModelForCausalLM"] = "own.Own"
    config = json.loads((place / name).read_text())
    (place / name).write_text(json.dumps({**config, **changes, "auto_map": classes}))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    if owner == "tokenizer":
        (place / "config.json").unlink()  # which names a class of the library
    found = Pretrained(str(place), is_here=True)
    with refused("without code of its own"):
        found.model(positions=8) if owner == "model" else found.tokenizer()
    assert not mark.exists()


def bidirectional(place):
    from transformers import BertConfig, BertLMHeadModel

    torch.manual_seed(0)
    small = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=64, initializer_range=0.3,
    )  # fmt: skip
    BertLMHeadModel(small).save_pretrained(place)


def with_words(words, **options):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    def change(place):
        model = Tokenizer(WordLevel(words, unk_token="a"))
        PreTrainedTokenizerFast(tokenizer_object=model, **options).save_pretrained(
            place
        )

    return change


def another_config(**fields):
    return lambda place: (place / "config.json").write_text(json.dumps(fields)) and None


LAYER = "transformer.h.0.mlp.c_fc.weight"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            with_weights(lambda t: t.pop(LAYER)),
            "expected all weights .* got none for .*c_fc",
        ),
        (
            with_weights(lambda t: t[LAYER].fill_(torch.nan)),
            "expected finite weights in model.enc",
        ),
        (
            with_config(tie_word_embeddings=False),
            "one table of words for input and output",
        ),
        (with_config(scale_attn_weights=False), "plain attention"),
        (
            bidirectional,
            "expected model.encoder to be a causal LM, got .*tokens behind it",
        ),
        (
            another_config(model_type="vit"),
            "that can be loaded without code of its own",
        ),
        (
            another_config(model_type="gemma3"),
            "that can be loaded without code of its own",
        ),
        (
            with_words({"<end>": 0, "\n": 1, "a": 2, "b": 90}, eos_token="<end>"),
            "got one of 91",
        ),
        (
            with_words({"<end>": 0, "\n": 1, "a": 2}),
            "model.encoder='.*an end token and an id",
        ),
        (
            with_words({"<end>": 0, "a": 2, "b": 3}, eos_token="<end>", unk_token="a"),
            "an id for the line feed, got none",
        ),
    ],
)
def test_a_language_model_that_is_not_whole_or_no_such_model_is_refused(
    change, match, tmp_path
):
    """Weights that a folder lacks would be random, and its privacy card would say
    otherwise.
    """
    base_in(tmp_path, gpt2=True)
    change(tmp_path)
    config = model_part(name="causal_lm", encoder=str(tmp_path))
    synthesis = SynthesisConfig(max_tokens=48, lora_rank=2)
    with refused(match):
        source_of(config, synthesis, public=(), seed=0).make()


def test_sizes_that_no_model_has_are_refused_when_planning(tmp_path):
    base_in(tmp_path, gpt2=True)
    with_config(n_head=0)(tmp_path)
    config = model_part(name="causal_lm", encoder=str(tmp_path))
    with refused("that can be loaded"):
        require_source(config, SynthesisConfig(max_tokens=48, lora_rank=2))
