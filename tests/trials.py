from trainables import trial
from trainables.system.communication import Alone


def run_alone(
    config, folder, *, data=None, cache=None, report=lambda epoch: True, comm=None
):
    """A trial in `folder`, where its data and its cache are too unless they are
    named.
    """
    data = data or folder
    return trial.run(
        config,
        folder=folder,
        comm=comm or Alone(),
        report=report,
        data_dir=data,
        cache_dir=cache or data / "cache",
    )
