"""The training material of a synthesis trial, and the frequencies of its prompts."""

from pathlib import Path
from typing import Any

import numpy as np

from trainables.config.trial import TrialConfig
from trainables.data.pair_split import PairSplit, couples
from trainables.data.pairs import PairCorpus
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import SecretKey
from trainables.errors import InvalidData, TrialFailed
from trainables.generation import histogram
from trainables.generation.material import TrainingTexts, positive
from trainables.io.files import dump_json, make_folder, read_written_json
from trainables.parse.function_types import function_types
from trainables.system import checkpoint
from trainables.tasks.parsing import parser_of, programs_of

NO_PROMPT = "none"
_HISTOGRAM = "histogram.json"


def materials(
    config: TrialConfig,
    corpus: PairCorpus,
    split: PairSplit,
    method: Any,
    *,
    cache_dir: Path,
) -> dict[str, TrainingTexts]:
    """The records of the parts "private", "public" and "validation", in this order, with
    the columns that the method reads. Programs are those of the data, or by a parser
    that is trained on the public part, which is kept in `cache_dir`.
    """
    synthesis = config.synthesis
    by_functions = method.reads_prompts and synthesis.prompt == "function_types"
    reads_programs = method.reads_programs or by_functions
    found = {}
    parser = None
    if reads_programs and synthesis.parses == "parser":
        parser = parser_of(
            corpus.select(split.public.tolist()),
            epochs=synthesis.parser_epochs,
            seed=config.data.split_seed,
            cache_dir=cache_dir,
        )
    for name in ("private", "public", "validation"):
        part = corpus.select(getattr(split, name).tolist())
        programs: tuple[str, ...] = ()
        if reads_programs:
            programs = part.programs
            if parser is not None and name != "public":
                programs = programs_of(parser, part.utterances, cache_dir=cache_dir)
        prompts: tuple[str, ...] = ()
        if by_functions:
            prompts = tuple(
                " ".join(sorted(function_types(program, kinds=("call",))))
                for program in programs
            )
        elif method.reads_prompts:
            prompts = tuple(domain or NO_PROMPT for domain in part.domains)
        found[name] = TrainingTexts(part.utterances, programs, prompts)
    return found


def exchange_programs(
    private: TrainingTexts, *, seed: int | None
) -> tuple[TrainingTexts, np.ndarray | None]:
    """Couples of records with their programs exchanged, and the couple of each record;
    the records as they are, without couples, where `seed` is None.
    """
    if seed is None:
        return private, None
    left, right = couples(np.arange(len(private.utterances)), seed=seed)
    ids, partners = np.concatenate([left, right]), np.concatenate([right, left])
    material = TrainingTexts(
        tuple(private.utterances[i] for i in ids),
        tuple(private.programs[i] for i in partners),
    )
    return material, np.concatenate([np.arange(len(left)), np.arange(len(right))])


def prompt_frequencies(
    config: TrialConfig,
    mechanism: Mechanism,
    method: Any,
    corpus: PairCorpus,
    *,
    private: TrainingTexts,
    public: TrainingTexts,
    key: SecretKey,
    folder: Path,
) -> dict[str, float]:
    """Frequencies of the prompts, drawn once for a trial and kept for resuming it.

    Raises: TrialFailed where training has begun and its counts are missing,
    InvalidInput where no count is above 0.
    """
    if not method.reads_prompts:
        return {}
    kept = folder / _HISTOGRAM
    if checkpoint.exists(folder):
        try:
            return dict(read_written_json(kept))
        except InvalidData:
            raise TrialFailed(
                f"expected {_HISTOGRAM} beside the checkpoint, got none that can be"
                " read: it is released once, before the first epoch"
            ) from None
    # The public prompts: the corpus' list of domains, or those of the public part.
    listed = config.data.domains
    if config.synthesis.prompt == "domain" and listed is not None:
        bins = [*listed, NO_PROMPT]
    else:
        bins = sorted(set(public.prompts))
    if config.synthesis.histogram == "public":
        counts = histogram.counts_of(public.prompts, bins)
    else:
        counts = histogram.counts_of(private.prompts, bins)
        if std := mechanism.histogram_noise_multiplier:
            counts = histogram.add_noise(counts, std=std, key=key, trial_id=config.id)
    positive(counts)  # else training would be paid for and nothing drawn
    make_folder(folder)
    dump_json(kept, counts)
    return counts
