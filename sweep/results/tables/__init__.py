"""Tables for people, as wide as where they are printed."""
