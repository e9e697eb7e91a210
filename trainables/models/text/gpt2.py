"""GPT-2's weights, by their names in `transformers`, in this project's causal LM and
back.
"""

from collections.abc import Iterator
from typing import Any

from trainables.dp.seeding import torch_seeded
from trainables.errors import InvalidInput
from trainables.models.encoders.adapters import Adapted
from trainables.models.text.causal_lm import CausalLm, LmSizes

_TOP = {
    "word.weight": "wte.weight",
    "position.weight": "wpe.weight",
    "norm.weight": "ln_f.weight",
    "norm.bias": "ln_f.bias",
}
_BLOCK = {
    "attention_norm": "ln_1",
    "norm": "ln_2",
    "qkv": "attn.c_attn",
    "attention_out": "attn.c_proj",
    "inner": "mlp.c_fc",
    "outer": "mlp.c_proj",
}
_MAPS = ("qkv", "attention_out", "inner", "outer")  # stored transposed there


def sizes_of(about: Any, *, positions: int) -> LmSizes:
    """The sizes of a `GPT2Config`.

    Raises: InvalidInput as `causal_lm` does.
    """
    plain = about.scale_attn_weights and not about.scale_attn_by_inverse_layer_idx
    if (
        about.activation_function != "gelu_new"
        or not plain
        or not about.tie_word_embeddings
    ):
        raise InvalidInput(
            "expected a GPT-2 with gelu_new, plain attention and one table of words for"
            " input and output, got a variant"
        )
    if positions > about.n_positions:
        raise InvalidInput(
            f"expected synthesis.max_tokens <= {about.n_positions}, got {positions}"
        )
    return LmSizes(
        vocabulary=about.vocab_size,
        width=about.n_embd,
        layers=about.n_layer,
        heads=about.n_head,
        intermediate=about.n_inner or 4 * about.n_embd,
        positions=about.n_positions,
        eps=about.layer_norm_epsilon,
    )


def causal_lm(found: Any, *, positions: int) -> CausalLm:
    """A `GPT2LMHeadModel` as this project's model, for records of at most `positions`
    tokens.

    Raises: InvalidInput for a variant with other parts.
    """
    model = CausalLm(sizes_of(found.config, positions=positions))
    weights = found.transformer.state_dict()
    model.load_state_dict(
        {
            ours: (weights[theirs].t() if is_turned else weights[theirs]).float()
            for ours, theirs, is_turned in _names(model.sizes.layers)
        }
    )
    model.provenance = "GPT-2's weights"
    return model


def to_transformers(model: CausalLm) -> Any:
    """The model as a `GPT2LMHeadModel`, its adapters merged into the maps that they
    belong to.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes, own = model.sizes, model.state_dict()
    for name, module in model.named_modules():
        if isinstance(module, Adapted):
            own |= {f"{name}.weight": module.merged(), f"{name}.bias": module.base.bias}
    about = GPT2Config(
        vocab_size=sizes.vocabulary,
        n_positions=sizes.positions,
        n_embd=sizes.width,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        n_inner=sizes.intermediate,
        layer_norm_epsilon=sizes.eps,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch_seeded(0):  # of weights that are replaced
        made = GPT2LMHeadModel(about).to(model.word.weight.device).eval()
    state = {
        theirs: own[ours].t() if is_turned else own[ours]
        for ours, theirs, is_turned in _names(sizes.layers)
    }
    made.transformer.load_state_dict(state)
    return made


def _names(layers: int) -> Iterator[tuple[str, str, bool]]:
    """The names of each parameter here and there, and whether it is stored transposed
    there.
    """
    yield from ((ours, theirs, False) for ours, theirs in _TOP.items())
    for number in range(layers):
        for ours, theirs in _BLOCK.items():
            for part in ("weight", "bias"):
                names = f"blocks.{number}.{ours}.{part}", f"h.{number}.{theirs}.{part}"
                yield *names, ours in _MAPS and part == "weight"
