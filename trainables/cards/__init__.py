"""Privacy cards: the meaning of a trial's epsilon, whom it protects and what it
excludes.
"""
