"""What libraries warn of while a test uses them, which is theirs to mend."""

import pytest

# MLflow's imports, SQLAlchemy's unclosed pool, and sockets that Ray leaves open.
IGNORED = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
