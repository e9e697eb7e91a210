"""Small random encoders of each family, in folders like those of the hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoConfig, AutoModel

TEXTS = (
    "show me flights from boston to san francisco on friday morning",
    "what is the cheapest fare from denver to new york",
    "wake me up at half past seven tomorrow and play some jazz",
    "réveille moi à sept heures s'il te plaît, o'clock 4:30pm $ 18th",
    "Flights From Boston, I'd like it don't you",
)
_BERT_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA_MARKS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
}


def word_pieces(marks):
    """WordPiece, lower-cased, as BERT, DistilBERT, ELECTRA and MPNet have it.

    The pieces are those of BPE: the trainer of WordPiece finds others in each process,
    and with them the encoder reads other rows.
    """
    unknown = next(mark for mark in marks if "UNK" in mark.upper())
    found = Tokenizer(models.BPE())
    found.normalizer = normalizers.BertNormalizer(lowercase=True)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=160, show_progress=False)
    )
    pieces = sorted(
        f"{before}{piece}" for piece in found.get_vocab() for before in ("", "##")
    )
    vocabulary = {piece: number for number, piece in enumerate([*marks, *pieces])}
    found.model = models.WordPiece(vocabulary, unk_token=unknown)
    found.add_special_tokens(list(marks))
    found.decoder = decoders.WordPiece()
    return _framed(found, marks)


def byte_level(marks):
    """Byte-level BPE, without a space before the first word, as RoBERTa and ModernBERT
    have it.
    """
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=list(marks),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(TEXTS, trainer)
    return _framed(found, marks)


def unigram(marks):
    """SentencePiece's Unigram, as XLM-R, CamemBERT, ALBERT and DeBERTa-v3 have it."""
    found = Tokenizer(models.Unigram())
    found.normalizer = normalizers.NFKC()
    found.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    found.decoder = decoders.Metaspace()
    unknown = next(mark for mark in marks if "UNK" in mark.upper())
    trainer = trainers.UnigramTrainer(
        vocab_size=120,
        special_tokens=list(marks),
        unk_token=unknown,
        show_progress=False,
    )
    found.train_from_iterator(TEXTS, trainer)
    return _framed(found, marks)


def _framed(found, marks):
    first, last = ("[CLS]", "[SEP]") if "[CLS]" in marks else ("<s>", "</s>")
    found.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[(mark, found.token_to_id(mark)) for mark in (first, last)],
    )
    return found


@dataclass(frozen=True)
class Kind:
    """How a family's folders look: the tokenizer with its marks, its class on the hub,
    the sizes' own names.
    """

    tokenizer: Callable[[tuple[str, ...]], Tokenizer]
    tokenizer_class: str
    sizes: dict[str, Any]
    marks: tuple[str, ...] = _BERT_MARKS


_OF_ROBERTA = {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
_OF_DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "max_relative_positions": -1,
}
_OF_DEBERTA_V2 = {
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
_OF_DISTILBERT = {"dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40}
_OF_MODERNBERT = {
    **{"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3},
    **{"bos_token_id": 2, "eos_token_id": 3},
    **{"global_attn_every_n_layers": 2, "local_attention": 8},
}
KINDS = {
    "bert": Kind(word_pieces, "BertTokenizer", _SIZES),
    "distilbert": Kind(
        word_pieces,
        "DistilBertTokenizer",
        _OF_DISTILBERT | {"max_position_embeddings": 64},
    ),
    "electra": Kind(word_pieces, "ElectraTokenizer", _SIZES | {"embedding_size": 12}),
    "mpnet": Kind(
        word_pieces,
        "MPNetTokenizer",
        _SIZES | {"pad_token_id": 1, "max_position_embeddings": 66},
        ("<s>", "<pad>", "</s>", "[UNK]", "<mask>"),
    ),
    "roberta": Kind(
        byte_level, "RobertaTokenizer", _SIZES | _OF_ROBERTA, _ROBERTA_MARKS
    ),
    "xlm-roberta": Kind(
        unigram, "XLMRobertaTokenizer", _SIZES | _OF_ROBERTA, _ROBERTA_MARKS
    ),
    "camembert": Kind(
        unigram, "CamembertTokenizer", _SIZES | _OF_ROBERTA, _ROBERTA_MARKS
    ),
    "albert": Kind(
        unigram,
        "AlbertTokenizer",
        _SIZES | {"embedding_size": 12},
        ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    ),
    "deberta-v2": Kind(
        unigram, "DebertaV2Tokenizer", _SIZES | _OF_DEBERTA | _OF_DEBERTA_V2
    ),
    "deberta": Kind(byte_level, "DebertaTokenizer", _SIZES | _OF_DEBERTA),
    "modernbert": Kind(byte_level, "PreTrainedTokenizerFast", _SIZES | _OF_MODERNBERT),
}


def write(folder, family, *, licence="apache-2.0", **sizes):
    """A random encoder of the family in `folder`, as `transformers` would load it; the
    model.
    """
    kind = KINDS[family]
    tokenizer = kind.tokenizer(kind.marks)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.enable_padding(length=16)  # as some folders of the hub have them
    tokenizer.enable_truncation(16)
    tokenizer.save(str(folder / "tokenizer.json"))
    first, last = ("[CLS]", "[SEP]") if "[CLS]" in kind.marks else ("<s>", "</s>")
    unknown, padding, mask = (
        next(mark for mark in kind.marks if word in mark.upper())
        for word in ("UNK", "PAD", "MASK")
    )
    about = {
        "tokenizer_class": kind.tokenizer_class,
        "cls_token": first,
        "sep_token": last,
        "unk_token": unknown,
        "pad_token": padding,
        "mask_token": mask,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    if licence is not None:
        (folder / "README.md").write_text(f"---\nlicense: {licence}\n---\n")
    config = AutoConfig.for_model(
        family, vocab_size=tokenizer.get_vocab_size(), **(kind.sizes | sizes)
    )
    torch.manual_seed(0)
    model = AutoModel.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if (
                parameter.dim() > 1
            ):  # far from alike, so that places and neighbours matter
                torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model


def with_config(**fields: Any) -> Callable[[Path], None]:
    """A change of fields of the config.json of a folder."""

    def change(place: Path) -> None:
        about = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps(about | fields))

    return change
