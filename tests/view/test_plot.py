from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from dflashctl.view.plot import plot


@example([(0.0, 0.0), (1.1e-308, 0.0)], 20)
@example([(0.0, -1.7e308), (1.0, 1.7e308)], 20)
@example([(0.0, 0.0), (1.0, 5e-324)], 20)
@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats()), max_size=50), st.integers(20, 200))
def test_a_plot_fits_whatever_it_draws(points: list[tuple[float, float]], width: int) -> None:
    lines = plot("loss", points, width)
    assert lines[0].startswith("loss")
    assert max(map(len, lines)) <= max(width, 45)


def test_a_rising_line_goes_from_the_bottom_left_to_the_top_right() -> None:
    lines = plot("x", [(float(n), float(n)) for n in range(100)], 60, height=4)
    assert lines[1].strip().startswith("99 ┤")
    assert lines[1].index("┤") < len(lines[1]) - 40
    assert lines[4].split("┤")[1].startswith("⣀")
    assert lines[5].endswith("99")


def test_a_spike_is_seen_however_narrow_the_plot_is() -> None:
    points = [(float(n), 50.0 if n == 5000 else 1.0) for n in range(10_000)]
    lines = plot("loss", points, 40, height=4)
    assert "50" in lines[1]
    assert lines[1].split("┤")[1].strip("⠀ ") != ""


def test_nothing_finite_is_told() -> None:
    assert plot("loss", [(1.0, float("nan"))], 80) == ["loss: no values"]
