"""The status of a trial."""

from __future__ import annotations

from enum import StrEnum


class TrialStatus(StrEnum):
    """The status by a trial's files; its value is the word in JSON and tables.

    refused      the plan does not run it
    planned      nothing has run yet
    running      a live process trains it
    interrupted  epochs have run, and no process trains it now
    done         trained to its last epoch and measured
    stopped      stopped early (scheduler, budget), and measured
    failed       raised an error, `sweep resume` tries it again
    """

    REFUSED = "refused"
    PLANNED = "planned"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
        """Whether it has a result: done or stopped."""
        return self in (TrialStatus.DONE, TrialStatus.STOPPED)

    @property
    def is_over(self) -> bool:
        """Whether it has ended in this run of the sweep: finished or failed."""
        return self.is_finished or self is TrialStatus.FAILED

    @property
    def is_pending(self) -> bool:
        """Whether it is planned, running or interrupted."""
        return not self.is_over and self is not TrialStatus.REFUSED

    @property
    def has_begun(self) -> bool:
        """Whether any epoch has run."""
        return self not in (TrialStatus.REFUSED, TrialStatus.PLANNED)

    @property
    def is_resumed(self) -> bool:
        """Whether `sweep resume` runs it: pending or failed."""
        return self.is_pending or self is TrialStatus.FAILED
