"""Public pretraining of an encoder on declared public corpora, never on private
records.

`config` names encoder and corpora, `loop` trains the encoder with a pair of heads for
each corpus, `result` writes its folder, `left_out` lists texts that two public corpora
share.
"""
