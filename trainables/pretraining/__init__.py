"""Public pretraining of an encoder on declared public corpora, never on private records.

`config` names encoder and corpora, `corpora` opens them, `model` has the encoder and a pair of
heads for each corpus, `loop` trains, `left_out` lists texts that two public corpora share.
"""
