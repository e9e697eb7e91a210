"""The micro-batch chart shows its input numbers in order."""

from __future__ import annotations

from dashboards.frontier import Point, figure, of_sweep


def test_points_are_drawn_in_order_of_size_with_their_values() -> None:
    points = [Point(4, 0.5, 0.45, 0.55, 2.0), Point(1, 0.3, 0.28, 0.33, 3.0)]
    error, time = figure(points, epsilon=8).axes
    assert list(error.lines[0].get_xdata()) == [1, 4]
    assert list(error.lines[0].get_ydata()) == [0.3, 0.5]
    assert list(time.lines[0].get_ydata()) == [3.0, 2.0]
    assert [label.get_text() for label in error.get_xticklabels()] == ["1", "4"]


def test_a_sweep_s_trials_are_its_points() -> None:
    trials = [
        {
            "config": {"privacy": {"microbatch_size": size}},
            "metrics": {
                "ser": ser,
                "ser_low": ser - 0.1,
                "ser_high": ser + 0.1,
                "seconds_epoch": 2.0,
                "epsilon": 7.998,
            },
        }
        for size, ser in ((2, 0.5), (1, 0.3))
    ]
    failed = {"config": {"privacy": {"microbatch_size": 4}}, "metrics": {}}
    drawn = of_sweep({"trials": [*trials, failed]})
    assert list(drawn.axes[0].lines[0].get_ydata()) == [0.3, 0.5]
    assert drawn.get_suptitle().endswith("every point at epsilon 8")
