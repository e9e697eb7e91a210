"""Generation of utterances: a file with `KIND = "method"` is one method, `decoding` serves all.

A method names its stages and the training texts of each (`texts`), and draws utterances from their
models (`draw`).
"""
