"""Analysis of finished trials: selection, comparison, leakage, tables, exports."""
