"""How utterances are generated: a file with `KIND = "method"` is one way, `decoding` serves all.

A method says which models it trains on what (`stages`), and draws utterances from them
(`utterances`).
"""
