"""Turns results into pictures, pages and panels. Knows neither Ray nor MLflow.

results.py      the frozen data that everything here takes
palette.py      one colour for an engine, one mark for a decay, everywhere
comparison.py   decays and times against the baseline (the paper's Tables 1 and 2)
scales.py       axes: where a value goes, where its ticks are
charts.py       interactive charts as inline SVG; figures.py the same for print (PNG, SVG)
tables.py       the data behind every figure, as CSV and HTML
report.py       one page to hand on, from templates/
frontier.py     the micro-batch frontier
grafana.py      panels as data, and the files that Grafana and Prometheus read
"""
