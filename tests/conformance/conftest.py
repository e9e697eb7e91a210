"""The temporary shelf, for every suite. A new file on a shelf inherits the tests of its
kind.
"""

from tests.conformance.shelves import drop_in

__all__ = ["drop_in"]
