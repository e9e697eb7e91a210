"""A model of your own code: any `nn.Module` that scores the words and the whole of an
utterance.

`factory` names a function `build(labels, **options)`, imported from the working
directory or the Python path, which gives the module. Its `forward(words)` reads
utterances of equal length, [B, T], and returns the scores of tags [B, T, tags] and of
intents [B, intents]. Gradients are clipped exactly, record by record, by `torch.func`:
slower than the layers of the other models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from trainables.config.sections import DataConfig, ModelConfig
from trainables.errors import InvalidInput
from trainables.fields import MAX_ROWS
from trainables.models.user_module import factory as factories

if TYPE_CHECKING:
    from trainables.data.records import LabelSchema
    from trainables.models.user_module.network import OwnModel

SHADOW_LEARNING_RATE = 1e-3  # of the shadow model that attacks it
BUILT_WHEN_PLANNED = True  # for the trial's labels, and tried
NOTE = (
    "Own code (model.name=module) is clipped record by record with torch.func: exact,"
    " and slower than the layers of the other models. Each process must be able to"
    " import the factory."
)


class Config(ModelConfig):
    """The fields of `model` with `name: module`."""

    name: Literal["module"] = "module"
    factory: str = ""
    """package.module:function that builds the module"""
    options: dict[str, JsonValue] = Field(default={})
    """arguments of the function in addition to the labels"""
    word_buckets: Annotated[int, Field(ge=2, le=MAX_ROWS)] = 8_192
    """number of buckets of hashed words; a module with encode_word(word) encodes words
    itself
    """
    source: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None
    """SHA-256 of the function's file, filled in automatically; changed code makes
    another trial
    """

    @model_validator(mode="before")
    @classmethod
    def _source_is_known(cls, fields: Any) -> Any:
        factory = fields.get("factory") if isinstance(fields, dict) else None
        if (
            not isinstance(factory, str)
            or not factory
            or fields.get("source") is not None
        ):
            return fields
        try:
            return {**fields, "source": factories.digest_of(factory)}
        except InvalidInput as problem:
            raise ValueError(str(problem)) from None


def require_usable(config: Config, data: DataConfig) -> None:
    """Look for the code, before any trial starts.

    Raises: InvalidInput where it cannot be found or is not what was planned.
    """
    factories.require_source(config.factory, config.source)


def build(config: Config, *, schema: LabelSchema, seed: int) -> OwnModel:
    """The user's module as graphs, tried on made numbers; what it draws is drawn from
    `seed`. Its code runs in a process of its own.

    Raises: InvalidInput where the factory fails, or the module does not keep to what is
        required of it (shapes, records apart, no state, gradients that `torch.func` can
        form).
    """
    from trainables.models.user_module.checks import require_sound
    from trainables.models.user_module.network import OwnModel
    from trainables.models.user_module.process import described

    factories.require_source(config.factory, config.source)
    found = described(config, schema, seed=seed)
    model = OwnModel(found, config, schema, seed=seed)
    require_sound(model, found.numbers)
    return model
