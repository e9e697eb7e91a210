"""The folders and the tracking store of sweeps, from the environment."""

import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from trainables.errors import InvalidInput, SweepError, quote, system_words, words_of
from trainables.io.documents import DocumentProblem, require_text

# Greedy, so that a password with an unescaped sign is hidden, too.
_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):\S*@")
# An ODBC string is one escaped value, with the password inside.
_NAMES = "password|passwd|pwd|secret|token|key|sig|odbc_connect"
_SECRET = re.compile(rf"(?i)([?&][^=&\s]*(?:{_NAMES})[^=&\s]*=)[^&\s]*")
_ESCAPE = re.compile("%(?=[0-9A-Fa-f]{2})")
_SQLITE, _SQLITE_WITH_DRIVER = "sqlite:///", "sqlite+pysqlite:///"
_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`home` holds the sweeps, `data_dir` the corpora, `cache_dir` what is derived from
    them; `tracking`: whether results go to MLflow too, whose store is `tracking_uri`.
    `names_tracking` is False where that is the default; a resumed sweep keeps the
    choice of its start then.
    """

    home: Path
    data_dir: Path
    cache_dir: Path
    tracking_uri: str
    tracking: bool = True
    names_tracking: bool = True

    @property
    def artifacts_dir(self) -> Path:
        """The place of MLflow's artifacts where its store is a database: beside the
        sweeps.
        """
        return self.home / "mlartifacts"


def from_environment(
    environment: Mapping[str, str] | None = None,
    *,
    tracking_uri: str | None = None,
    tracking: str | None = None,
) -> Settings:
    """Settings from $SWEEP_HOME, $SWEEP_DATA_DIR, $SWEEP_CACHE_DIR, $SWEEP_TRACKING and
    $MLFLOW_TRACKING_URI.

    Defaults: ./sweeps, ./data, `cache` under the home, mlflow, and a SQLite file under
    the home. `tracking` and $SWEEP_TRACKING are mlflow or none, which is the disk
    alone.

    >>> from_environment({"SWEEP_HOME": "/s"}).tracking_uri
    'sqlite:////s/mlflow.db'
    >>> from_environment({}).tracking, from_environment({"SWEEP_TRACKING": "none"}).tracking
    (True, False)

    Raises: InvalidInput for an invalid tracking URI or tracker, or a path that can be
    no folder.
    """
    given = os.environ if environment is None else environment
    home = _folder(given, "SWEEP_HOME", "sweeps")
    uri = (
        tracking_uri
        or given.get("MLFLOW_TRACKING_URI")
        or sqlite_uri(home / "mlflow.db")
    )
    if _ESCAPE.search(uri) and uri.startswith(_SQLITE):
        uri = uri.replace(_SQLITE, _SQLITE_WITH_DRIVER, 1)
    scheme = uri.split(":")[0].split("+")[0]
    if scheme not in _SCHEMES or (":" not in uri and uri != "databricks"):
        raise InvalidInput(
            f"expected tracking_uri to start with one of {', '.join(_SCHEMES)},"
            f" got {hide_passwords(uri)!r}"
        )
    named = tracking or given.get("SWEEP_TRACKING") or ""
    if named not in ("", "mlflow", "none"):
        raise InvalidInput(
            f"expected tracking to be one of mlflow, none, got {named!r}"
        )
    return Settings(
        home=home,
        data_dir=_folder(given, "SWEEP_DATA_DIR", "data"),
        cache_dir=_folder(given, "SWEEP_CACHE_DIR", str(home / "cache")),
        tracking_uri=uri,
        tracking=named != "none",
        names_tracking=bool(named),
    )


def _folder(given: Mapping[str, str], variable: str, default: str) -> Path:
    """The absolute path of a folder that exists or can be created. Raises:
    InvalidInput.
    """
    value = given.get(variable) or default
    try:
        require_text(value)
        place = Path(value).absolute()
        _require_folder(place)
    except (DocumentProblem, OSError) as problem:
        reason = system_words(problem) if isinstance(problem, OSError) else problem
        raise InvalidInput(
            f"expected {variable} to be a folder, or the path of a new one, got"
            f" {quote(value)}: {reason}"
        ) from None
    return place


def _require_folder(place: Path) -> None:
    """Raises: OSError where `place` is no folder and none can be there."""
    try:
        if not stat.S_ISDIR(place.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, None)
    except FileNotFoundError:
        if place.is_symlink():
            raise OSError(errno.ENOENT, "the link leads nowhere") from None
        _require_folder(place.parent)


def sqlite_uri(file: Path) -> str:
    """The address of a SQLite file, with signs escaped that its reader would take for
    something else. With an escape it names its driver: without one MLflow makes the
    folder that it reads without the escapes, too.

    >>> sqlite_uri(Path("/data/mlflow.db")), sqlite_uri(Path("/data/50% done?/a"))
    ('sqlite:////data/mlflow.db', 'sqlite+pysqlite:////data/50% done%3F/a')
    """
    name = _ESCAPE.sub("%25", str(file)).replace("?", "%3F")
    return f"{_SQLITE if name == str(file) else _SQLITE_WITH_DRIVER}{name}"


def sqlite_file(uri: str) -> Path | None:
    """The file of a SQLite address; None for any other address and for a database in
    memory.

    >>> sqlite_file("sqlite+pysqlite:////data/50% done%3F/mlflow.db")
    PosixPath('/data/50% done?/mlflow.db')
    """
    place = uri.partition("?")[0].replace(_SQLITE_WITH_DRIVER, _SQLITE, 1)
    name = unquote(place.removeprefix(_SQLITE))
    return (
        Path(name)
        if place.startswith(_SQLITE) and name not in ("", ":memory:")
        else None
    )


def hide_passwords(text: str) -> str:
    """A text, such as a line of a command or an error, without the passwords of its
    addresses.

    >>> hide_passwords("postgresql://ann:s3cret@host/runs")
    'postgresql://ann:***@host/runs'
    >>> hide_passwords("https://host:5000/x?sslpassword=s3cret&timeout=3")
    'https://host:5000/x?sslpassword=***&timeout=3'
    >>> hide_passwords("mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BPWD%3Ds3cret")
    'mssql+pyodbc:///?odbc_connect=***'
    """
    return _SECRET.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text))


def first_line(problem: BaseException) -> str:
    """The first line of what an error says, without passwords, for a log or a screen.
    Further lines may quote values, and errors of other libraries are cut after 200
    characters.
    """
    line = hide_passwords(words_of(problem).splitlines()[0])
    # Ours are one sentence.
    return line if isinstance(problem, SweepError) else line[:200]
