"""Models. Each file is one architecture: `build(...)` returns a torch module.

Its kind says its inputs and outputs: "frames" (utterances, intents and slots), "text"
(a language model), "pairs" (utterances, programs).
"""

ENTRIES = {
    "bert": "frames",
    "causal_lm": "text",
    "clc": "frames",
    "features": "frames",
    "lora": "frames",
    "module": "frames",
}
DEFAULT = "clc"
