"""Generated utterances: models trained on private pairs, sampled, and measured."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainables.cards.card import counted_fields
from trainables.config.trial import TrialConfig
from trainables.data.texts import EncodedTexts
from trainables.data.training_overlap import THRESHOLDS
from trainables.generation.decoding import ModelDrawer
from trainables.generation.material import UTTERANCES, GeneratedTexts, Plan
from trainables.io.files import dump_json
from trainables.metrics import generation as scores
from trainables.models.encoders.text_states import TextStates
from trainables.models.text.hub_lm import save_lm
from trainables.result import EpochReport, TrialResult
from trainables.system import phase
from trainables.system.communication import Communicator
from trainables.tasks._pretraining import mean_token_loss, pretrain
from trainables.tasks._synthesis_checks import learns_from_public_text
from trainables.tasks._synthesis_setup import SynthesisSetup, prepare
from trainables.tasks._trial_result import Clock, result, spent_privacy
from trainables.tasks.parsing import parser_of
from trainables.training import Trained, train

GENERATED = "synthetic.jsonl"
MEMBERS, HELD_OUT = "members.jsonl", "held_out.jsonl"  # private records: never exported
ABOUT = "synthesis.json"


def run(
    config: TrialConfig,
    *,
    folder: Path,
    comm: Communicator,
    report: Callable[[EpochReport], bool],
    data_dir: Path,
    cache_dir: Path,
) -> TrialResult:
    """See `trainables.trial.run`."""
    clock = Clock(folder, leads=comm.rank == 0)
    setup = prepare(
        config, comm=comm, folder=folder, data_dir=data_dir, cache_dir=cache_dir
    )
    clock.end("prepare")
    trained = train(setup, config.training, folder=folder, comm=comm, report=report)
    clock.end("train", then=phase.DRAWING)
    drawn, notes = _draw(setup, trained)
    clock.end("generate", then=phase.EVALUATING)
    figures = measure(setup, drawn, cache_dir=cache_dir) if drawn is not None else {}
    summary = spent_privacy(config, setup.mechanism, trained)
    if comm.rank == 0:
        save(setup, folder, drawn, epochs_done=trained.epochs_done)
    clock.end("evaluate")
    return result(
        config,
        setup.mechanism,
        trained,
        summary,
        comm=comm,
        metrics={
            **figures,
            "epsilon_rdp": summary.epsilon_rdp,
            "noise_multiplier": setup.mechanism.noise_multiplier,
            "steps": float(setup.mechanism.first(trained.epochs_done).steps),
            "cut_rate": setup.cut_rate,
            **_of_best_epochs(setup, trained),
        },
        seconds=clock.seconds,
        corpus=setup.corpus.name,
        public_data=setup.corpus.public,
        provenance="; ".join(setup.notes),
        public=_public(setup),
        notes=(*setup.notes, *notes),
    )


def _of_best_epochs(setup: SynthesisSetup, trained: Trained) -> dict[str, float]:
    """The best epoch of each stage, and its loss on held-out records."""
    best = {stage: trained.best_epochs.get(f"{stage}.") for stage in setup.model}
    losses = {
        # A stage that was not trained is unchanged.
        stage: trained.history[(epoch or 1) - 1][f"validation_loss_{stage}"]
        for stage, epoch in best.items()
    }
    stages = {
        f"best_epoch_{stage}": float(epoch) for stage, epoch in best.items() if epoch
    }
    return {
        **(stages if len(best) > 1 else {}),
        "validation_loss": sum(losses.values()),
        **{f"validation_loss_{stage}": loss for stage, loss in losses.items()},
    }


def _draw(
    setup: SynthesisSetup, trained: Trained
) -> tuple[GeneratedTexts | None, tuple[str, ...]]:
    """Utterances of the trained models; None, with the reason, where a stage is
    missing.
    """
    synthesis = setup.config.synthesis
    stages = setup.mechanism.stages
    if stages and trained.epochs_done <= stages[0]:
        return None, (
            "stopped before the second stage was trained: nothing was generated",
        )
    drawer = ModelDrawer(
        dict(setup.model.items()),
        setup.source.tokenizer,
        synthesis,
        seed=setup.config.training.seed,
        comm=setup.comm,
    )
    plan = Plan(synthesis.num_generated, setup.config.training.seed, setup.frequencies)
    return setup.method.draw(drawer, plan), ()


def measure(
    setup: SynthesisSetup, drawn: GeneratedTexts, *, cache_dir: Path
) -> dict[str, float | None]:
    """Figures of generated against human text, the same number of each; nothing private
    is read.

    Programs of generated text come from a parser trained on human text that is neither
    private nor tested on; the language model of the fluency figure is trained on public
    text alone.
    """
    config, synthesis = setup.config, setup.config.synthesis
    human = setup.corpus.select(setup.split.test.tolist())
    programs: list[str] | None = None
    human_programs: list[str | None] | None = None
    reference = setup.corpus.select(setup.split.reference.tolist())
    if synthesis.measuring_parser_epochs and len(reference) and reference.has_programs:
        parser = parser_of(
            reference,
            epochs=synthesis.measuring_parser_epochs,
            seed=config.data.split_seed,
            cache_dir=cache_dir,
        )
        readable = [text or "?" for text in drawn.utterances]
        programs = parser.parse(readable)
        human_programs = [program or None for program in human.programs]
    seed, states = config.data.split_seed, TextStates()
    found = scores.score(
        scores.Texts(drawn.utterances, programs),
        scores.Texts(human.utterances, human_programs),
        seed=seed,
        states=states,
    )
    public = setup.corpus.select(setup.split.public.tolist()).utterances
    found |= scores.without_records(public, human.utterances, seed=seed, states=states)
    figures: dict[str, float | None] = {
        name: None if value is None else float(value) for name, value in found.items()
    }
    programs = drawn.prompts if setup.method.reads_programs else None
    figures |= scores.shape(drawn.utterances, programs)
    figures["fluency_loss"] = _fluency(setup, drawn, cache_dir=cache_dir)
    return figures


def _fluency(setup: SynthesisSetup, drawn: GeneratedTexts, *, cache_dir: Path) -> float:
    """Mean token loss of the utterances under the model of public text alone."""
    config = setup.config
    model: Any = pretrain(
        setup.source,
        setup.public_text[UTTERANCES],
        stage=UTTERANCES,
        synthesis=config.synthesis,
        seed=config.training.seed,
        cache_dir=cache_dir,
    )
    most = config.synthesis.max_tokens
    texts = EncodedTexts(drawn.utterances, setup.source.tokenizer, max_tokens=most)
    return mean_token_loss(model, texts)


def _public(setup: SynthesisSetup) -> list[str]:
    """The inputs that are treated as public, one sentence each."""
    synthesis = setup.config.synthesis
    found = [
        f"a share of {synthesis.public_fraction:g} of the training part, drawn at"
        " random",
        f"the starting weights ({'; '.join(setup.notes)})",
    ]
    if learns_from_public_text(setup.config) and not setup.corpus.public:
        found.append(
            "utterances of public corpora, which share no more records with the data"
            f" than chance explains ({THRESHOLDS})"
        )
    if setup.method.reads_prompts and synthesis.histogram == "public":
        found.append("the frequencies of the prompts")
    return found


def save(
    setup: SynthesisSetup,
    folder: Path,
    drawn: GeneratedTexts | None,
    *,
    epochs_done: int,
) -> None:
    """Write the models as a folder for `sweep synthesize`, and the drawn utterances.

    All of it is released by the mechanism, or public. With coins in the split, the
    records of both sides are written too, for the curator only, to audit the release.
    """
    place = folder / "model"
    n_is_declared = setup.corpus.public or setup.config.data.num_records is not None
    save_lm(dict(setup.model.items()), setup.source.tokenizer, place)
    about = {
        "model": setup.config.model.model_dump(mode="json"),
        "synthesis": setup.config.synthesis.model_dump(mode="json"),
        "stages": list(setup.model.keys()),
        "frequencies": setup.frequencies,
        "mechanism": asdict(setup.mechanism.first(epochs_done))
        | ({} if n_is_declared else counted_fields(setup.mechanism)),
        "corpus": setup.corpus.name,
        "accountant": setup.config.privacy.accountant,
        "provenance": list(setup.notes),
    }
    dump_json(place / ABOUT, about, indent=1)
    if drawn is not None:
        _write(folder / GENERATED, drawn.utterances)
    if len(setup.split.held_out):
        for name, ids in (
            (MEMBERS, setup.split.private),
            (HELD_OUT, setup.split.held_out),
        ):
            _write(folder / name, setup.corpus.select(ids.tolist()).utterances)


def _write(file: Path, utterances: Sequence[str]) -> None:
    """Write JSON lines that only their owner can read."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        for text in utterances:
            out.write(json.dumps({"utterance": text}, ensure_ascii=False) + "\n")
