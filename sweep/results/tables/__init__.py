"""Tables for people, fitted to the width of their output."""
