"""An encoder of `sweep pretrain` by its description and its pretraining texts, without
its weights (and without torch).

Whether it has learned from private records is decided by texts, not by names: its
folder has the hashes of its pretraining texts, `learnt.npy` (uint32[n], sorted; see
`data.training_overlap`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainables import catalogue
from trainables.data.corpus import Corpus
from trainables.data.training_overlap import (
    THRESHOLDS,
    keys_of,
    read_hashes,
    shares_records,
)
from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import read_written_json

ABOUT, WEIGHTS, LEARNT = "encoder.json", "model.safetensors", "learnt.npy"
MOMENTS, NAMES = "moments.safetensors", "names.safetensors"
_FORMAT = 2
_SHIPPED = Path(__file__).with_name("shipped")


@dataclass(frozen=True, eq=False)
class About:
    """`card` lists the corpora of the encoder; `layers` are those whose states are
    features.
    """

    place: Path
    card: Mapping[str, Any]
    layers: tuple[int, ...]

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the pretraining corpora, and the encoder that the pretraining
        started from.
        """
        own = (str(each["name"]) for each in self.card["corpora"])
        return tuple(
            dict.fromkeys((*own, *map(str, self.card.get("corpora_of_start", ()))))
        )

    @property
    def name(self) -> str:
        """The name in its card."""
        return str(self.card.get("name", self.place.name))

    def public_inputs(self, *, is_private: bool) -> Iterator[str]:
        """In words: what fixed lists of texts took out of its corpora, and for private
        data the comparison that `require_unlearnt` made.
        """
        if lists := self.card.get("left_out_by_the_lists_of", ()):
            number = sum(
                int(each.get("texts_left_out", 0)) for each in self.card["corpora"]
            )
            yield (
                f"fixed lists of texts that the corpora of the encoder {self.name}"
                f" share with {', '.join(lists)}, which took {number} out of its"
                " pretraining"
            )
        if is_private:
            yield (
                f"the pretraining texts of the encoder {self.name}, which share no more"
                f" records with the data than chance explains ({THRESHOLDS})"
            )


def shipped_encoders() -> tuple[str, ...]:
    """Names of the encoders that ship with the package, sorted. Each is a folder of
    `shipped/` that `sweep pretrain` has made, and its name is a value of
    `model.encoder`.
    """
    return tuple(sorted(place.parent.name for place in _SHIPPED.glob(f"*/{ABOUT}")))


def about_of(encoder: str) -> About | None:
    """The description of an encoder that ships or of a folder of `sweep pretrain`; None
    for any other place.

    Raises: InvalidData where its file is damaged.
    """
    places = (Path(encoder).expanduser(), _SHIPPED / encoder)
    place = next((place for place in places if (place / ABOUT).is_file()), None)
    if place is None:
        return None
    try:
        fields = read_written_json(place / ABOUT)
        found = About(place, dict(fields["card"]), tuple(map(int, fields["layers"])))
        if fields["format"] != _FORMAT or not found.corpora or not found.layers:
            raise ValueError
    except (InvalidData, ValueError, KeyError, TypeError):
        raise InvalidData(
            f"expected an encoder of format {_FORMAT} in {place}, got a damaged {ABOUT}"
        ) from None
    return found


def write_about(
    place: Path, *, card: Mapping[str, Any], layers: tuple[int, ...]
) -> None:
    """Write the description of the encoder in the folder `place`: the `card` (corpora,
    licences, counts) and the `layers` whose states are features, 0 the embeddings. It
    is written last, because its presence shows that the folder is complete.
    """
    about = {"format": _FORMAT, "layers": layers, "card": dict(card)}
    (place / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def require_unlearnt(encoder: str, corpus: Corpus) -> None:
    """Refuse an encoder that was pretrained on records of a private corpus, whatever
    its name: no epsilon of a trial would cover them. Texts are compared by their
    hashes; chance is allowed for as `data.training_overlap` says. An encoder that
    `sweep pretrain` did not make has no hashes and passes.

    Raises: InvalidInput without counts, because plans and reports keep the message; as
    `read_hashes` for a damaged file.
    """
    about = about_of(encoder)
    if about is None or catalogue.entry("datasets", corpus.name).is_public:
        return  # a public corpus is refused by its name
    if shares_records(keys_of(corpus), read_hashes(about.place / LEARNT)):
        raise InvalidInput(
            "expected model.encoder that has not learned from the records of"
            f" {corpus.name}, got {encoder}: more of them are among its pretraining"
            " texts than chance explains"
        )
