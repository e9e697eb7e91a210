"""Turns results into pictures, pages and panels. Knows neither Ray nor MLflow.

results.py      the frozen data that everything here takes
palette.py      one colour for an engine, one mark for a decay, everywhere
comparison.py   decays and times against the baseline (the paper's Tables 1 and 2)
charts.py       every chart, defined once, as the data of chart.py
roc_charts.py   those of ROC curves
render.py       draws them: PNG for print; svg.py in a page; legend.py what the marks mean
tables.py       the data behind every figure, as CSV and HTML
report.py       one page to hand on, from templates/
frontier.py     the micro-batch frontier
grafana.py      the files that Grafana and Prometheus read; live_metrics.py their gauges
"""
