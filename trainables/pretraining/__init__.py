"""Public pretraining: an encoder learns from declared public corpora, never from a private record.

`config` says which encoder and corpora, `corpora` opens them, `model` holds the encoder and a pair
of heads for each corpus, `loop` trains, `left_out` lists texts that two public corpora share.
"""
