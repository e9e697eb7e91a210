"""What finished trials say: selection, comparison, leakage, tables, exports."""
