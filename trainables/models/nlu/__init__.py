"""Models of intents and slots: torch modules behind the entries of
`trainables.models`.
"""
