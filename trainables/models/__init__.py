"""Models. `ENTRIES` lists them by the names that configs use.

Each is a class in `configs`, without torch, whose `kind` says its inputs and outputs:
"frames" (utterances, intents and slots) or "text" (a language model). Its `build` gives
the torch module.
"""

ENTRIES = {
    "bert": "configs:BertConfig",
    "causal_lm": "configs:CausalLmConfig",
    "clc": "configs:ClcConfig",
    "features": "configs:FeaturesConfig",
    "lora": "configs:LoraConfig",
    "module": "configs:OwnCodeConfig",
}
DEFAULT = "clc"
