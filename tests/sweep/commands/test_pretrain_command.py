from sweep import cli
from trainables.models.encoders.about import about_of
from trainables.pretraining import loop


class Reports:
    """`loop._train` that keeps the reported steps, and `stops` at the second report."""

    def __init__(self, train, *, stops=False):
        self._train, self._stops = train, stops
        self.steps = []

    def __call__(self, *args, **kwargs):
        return self._train(*args, **{**kwargs, "report": self._report})

    def _report(self, progress):
        self.steps.append(progress.step)
        if self._stops and len(self.steps) == 2:
            raise OSError("stopped")


def test_the_folder_and_its_card(pretraining, place, line):
    document = line.document("pretrain", pretraining)
    place = place / "home" / "encoders" / "tiny"
    assert document["folder"] == str(place)
    assert about_of(str(place)).card == document["card"]
    assert not any(each.name.startswith(".") for each in place.iterdir())
    assert "expected --to to name a new folder" in line.refused("pretrain", pretraining)


def test_it_goes_on_with_the_same_settings_alone(pretraining, place, line, monkeypatch):
    to, train = place / "encoder", loop._train
    begun, later = Reports(train, stops=True), Reports(train)
    command = ["pretrain", str(pretraining), "--to", str(to), "--set", "batch_size=2"]
    with monkeypatch.context() as patched:
        patched.setattr(loop, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        patched.setattr(loop, "_train", begun)
        assert cli.run(command) != 0
    assert begun.steps[0] == 1
    said = line.refused(*command, "--set", "epochs=2")
    assert "expected the settings of the unfinished pretraining" in said
    with monkeypatch.context() as patched:
        patched.setattr(loop, "_train", later)
        assert cli.run(command) == 0
    # The step that was reported last had no checkpoint yet.
    assert later.steps[0] == begun.steps[-1] > 1
    assert not (to / ".pretraining").exists()
