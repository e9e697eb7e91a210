"""The data sets of configs, opened once a process: what the epsilon of a trial is
about.
"""

from functools import lru_cache

from sweep import status
from sweep.settings import Settings
from sweep.store.sweeps import require_storage
from trainables.config.trial import DataConfig
from trainables.data.corpus import Corpus, data_path, open_corpus
from trainables.data.pairs import PairCorpus, open_pairs
from trainables.errors import InvalidData
from trainables.io.files import make_folder

TrainingData = Corpus | PairCorpus


@lru_cache(maxsize=16)
def open_pair_data(config: DataConfig, settings: Settings) -> PairCorpus:
    """The pairs of utterances and programs that a config names, read once a process.
    Equal configs get the same object, which nobody changes.

    Raises: InvalidData for a file that is missing or damaged.
    """
    status.enter(status.LOADING)
    return open_pairs(config, data_dir=settings.data_dir)


@lru_cache(maxsize=64)
def open_data(config: DataConfig, settings: Settings) -> Corpus:
    """The corpus of utterances with intents and slots that a config names, encoded into
    the cache at the first call and opened once a process. Equal configs get the same
    object, which nobody changes.

    Raises: InvalidData for a file that is missing or damaged; as `require_storage`.
    """
    status.enter(status.LOADING)
    require_storage(settings, check=make_folder)
    return open_corpus(config, data_dir=settings.data_dir, cache_dir=settings.cache_dir)


def is_available(config: DataConfig, settings: Settings) -> bool:
    """Whether the files of a corpus exist where the config or the settings say. They
    are not read, so they may still be damaged. A generated corpus needs none and is
    available.
    """
    place = data_path(config, data_dir=settings.data_dir)
    try:
        config.files(place)
    except InvalidData:
        return False
    return True
