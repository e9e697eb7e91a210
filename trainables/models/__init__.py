"""Models. Each file is one architecture: `build(...)` returns a torch module.

`KIND` states a model's inputs and outputs: "frames" (utterances, intents and slots), "text" (a
language model), "pairs" (utterances, programs).
"""
