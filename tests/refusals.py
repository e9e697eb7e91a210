from contextlib import contextmanager

import pytest

from trainables.errors import InvalidInput


@contextmanager
def refused(words, kind=InvalidInput, *, hides=""):
    """Fails unless an error of this type is raised inside, in one line that matches
    `words` and does not say what it `hides`.
    """
    with pytest.raises(kind, match=words) as found:
        yield found
    said = str(found.value)
    assert "\n" not in said
    assert not hides or hides not in said
