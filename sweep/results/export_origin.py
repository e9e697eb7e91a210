"""What an export with weights that can be an encoder leaves in its home and in its
folder: the home keeps which records they were trained on, the folder an opaque id,
epsilon and delta.
"""

from pathlib import Path

from sweep.results.export_documents import SYNTHESIS, WEIGHTS
from sweep.spending.exports import Exports
from sweep.spending.ledger import FILE, SELECTION, Entry, Ledger
from sweep.spending.paid import uncharged_epochs
from sweep.spending.taken_over import entries_of
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import catalogue
from trainables.cards.card import PrivacyCard
from trainables.errors import InvalidData
from trainables.models.encoders.exported import digests_in, tensor_digests
from trainables.models.encoders.named_files import encoders_of
from trainables.models.encoders.origin import FOLDER, Origin, write_origin


def keep_origin(
    folder: SweepFolder, record: TrialRecord, card: PrivacyCard, model: Path
) -> None:
    """Write the export `model` of a trial into its home, then `export.json` into its
    encoder. Heads and adapters alone are no encoder: nothing is written for them.

    Raises: InvalidData where the ledger lacks an epoch of the trial.
    """
    tensors = _trained_tensors(record, model)
    entries = _entries(folder, record) if tensors else ()
    if not entries:
        return
    encoders = encoders_of(dict(record.plan.config.model))
    name = Exports(folder.path.parent).keep(
        tensors,
        dataset=entries[0].dataset,
        releases=tuple(each.release for each in entries if not each.release.is_nothing),
        encoders=encoders,
    )
    if (model / FOLDER).is_dir():
        write_origin(
            model / FOLDER, Origin(id=name, epsilon=card.epsilon, delta=card.delta)
        )


def _trained_tensors(record: TrialRecord, model: Path) -> list[str]:
    """Digests of the weights that another model can start from, without frozen ones,
    which are those of a public encoder or of an export that the home knows.
    """
    if (model / SYNTHESIS).is_file():  # another program can make an encoder of them
        return [*digests_in(model / WEIGHTS).values()]
    if not (model / FOLDER).is_dir():
        return []
    has_frozen = record.plan.fields["model"].get("trained", "all") != "all"
    return [
        digest
        for name, digest in tensor_digests(model / FOLDER).items()
        if not has_frozen or name.endswith(".bias") or "LayerNorm" in name
    ]


def _entries(folder: SweepFolder, record: TrialRecord) -> tuple[Entry, ...]:
    """What the ledger has charged for the weights of a trial: its attempts, or its
    selection.
    """
    every = entries_of(folder, Ledger(folder.path.parent / FILE))
    found = tuple(
        entry for entry in every if entry.trial in (record.plan.id, SELECTION)
    )
    is_selected = any(entry.trial == SELECTION for entry in found)
    is_prior = catalogue.kind_of("engines", record.plan.engine) == "prior"
    if is_prior and not record.plan.covers_all:
        return found
    if not is_selected and uncharged_epochs(record.plan.id, record.epochs_done, found):
        raise InvalidData(
            f"expected the ledger to have every epoch of trial {record.plan.id}, got"
            f" less: restore"
            " it from a copy, or charge them again (`sweep ledger --check --repair`)"
        )
    return found
