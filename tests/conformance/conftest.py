"""The temporary shelf, for every suite."""

from tests.conformance.shelves import drop_in

__all__ = ["drop_in"]
