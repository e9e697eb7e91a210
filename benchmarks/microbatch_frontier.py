"""Draw the micro-batch frontier of a finished sweep.

sweep run search_spaces/microbatch_frontier.yaml --name frontier
sweep show frontier --json > frontier.json
python benchmarks/microbatch_frontier.py frontier.json docs/images/microbatch_frontier.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dashboards.frontier import Point, figure


def main(source: Path, target: Path) -> None:
    """Read `sweep show --json`, print the points, draw them."""
    trials = json.loads(source.read_text())["trials"]
    points = [
        Point(
            microbatch_size=trial["config"]["privacy"]["microbatch_size"],
            ser=trial["metrics"]["ser"],
            ser_low=trial["metrics"]["ser_low"],
            ser_high=trial["metrics"]["ser_high"],
            seconds=trial["metrics"]["seconds_epoch"],
        )
        for trial in trials
    ]
    for point in sorted(points, key=lambda each: each.microbatch_size):
        print(f"{point.microbatch_size:>3}  SER {point.ser:.4f}  {point.seconds:.2f} s an epoch")
    epsilon = max(trial["metrics"]["epsilon"] for trial in trials)
    figure(points, epsilon=round(epsilon, 2)).savefig(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
