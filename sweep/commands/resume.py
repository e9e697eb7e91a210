"""`sweep resume`: continue an interrupted sweep."""

from sweep.commands._options import Address, JsonFlag, Name, Tracking, TrackingUri
from sweep.commands._output import console, finish


def resume(
    name: Name,
    tracking: Tracking = None,
    tracking_uri: TrackingUri = None,
    address: Address = None,
    as_json: JsonFlag = False,
) -> None:
    """Continue a sweep: finished trials stay, others go on from their checkpoint."""
    from sweep import progress_display
    from sweep.settings import from_environment
    from sweep.store.sweeps import open_sweep

    settings = from_environment(tracking_uri=tracking_uri, tracking=tracking)
    folder = open_sweep(settings.home, name)
    screen = console(stderr=True)
    done = progress_display.resume(
        folder, settings, screen, quiet=as_json, address=address
    )
    finish(done, as_json=as_json, export=False)
