"""Charts, pages and panels of results, without Ray and MLflow.

results.py      the frozen data that all modules take; changes from the baseline
palette.py      one colour for an engine, one mark for a decay, everywhere
charts.py       every chart, defined once, as data
render.py       draws them as PNG and as elements of a page
tables.py       the data behind every figure, as CSV and HTML
report.py       one self-contained page, from templates/
grafana.py      files for Grafana and Prometheus; live_metrics.py their gauges
"""
