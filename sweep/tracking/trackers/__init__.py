"""Trackers of results; a file's name is the name in `--tracking` and $SWEEP_TRACKING.

AUDIENCE                                 "curator": a private store, which has every figure,
                                         those that no epsilon covers under `curator_only/`;
                                         "public": a service, which has public figures alone
`check(settings)`                        refuse what is not installed or not set up; quick
`open_tracker(settings, away=)`          a tracker (see `sweep.tracking.protocol`); `away` is called
                                         with a reason where it opens later, without it that is
                                         refused
"""
