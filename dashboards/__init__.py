"""Turns results into pictures and reports. Knows neither Ray nor MLflow."""
