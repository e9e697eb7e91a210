"""Models. Each file is one architecture: `build(...)` returns a torch module.

`KIND` states what a model reads and gives: "frames" (utterances, intents and slots), "text" (a
language model), "pairs" (utterances, programs).
"""
