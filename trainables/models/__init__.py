"""Models. `ENTRIES` lists them by the names that configs use.

Each is a class in `configs`, without torch, whose `kind` says its inputs and outputs:
"frames" (utterances, intents and slots) or "text" (a language model). Its `build` gives
the torch module.
"""

from trainables.models.configs import (
    BertConfig,
    CausalLmConfig,
    ClcConfig,
    FeaturesConfig,
    LoraConfig,
    OwnCodeConfig,
)

ENTRIES = {
    "bert": BertConfig,
    "causal_lm": CausalLmConfig,
    "clc": ClcConfig,
    "features": FeaturesConfig,
    "lora": LoraConfig,
    "module": OwnCodeConfig,
}
DEFAULT = "clc"
