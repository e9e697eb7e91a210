"""Generation in stages (Mireshghallah et al. 2022)."""

KIND = "method"
