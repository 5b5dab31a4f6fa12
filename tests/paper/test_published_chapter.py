"""The chapter on published results: there when they were read, with their numbers, and without invented curves."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle
from paper.paper_study import PAPER

from meshperf.errors import MeshperfError
from meshperf.published import results
from meshperf.report.published import figures, plots, tables, values


@pytest.fixture(scope="module")
def read(rendered):
    return values.reading(rendered.report_data)


@pytest.fixture(scope="module")
def floats(rendered):
    items = (*figures.floats(rendered.report_data), *tables.floats(rendered.report_data))
    return {item.label: item for item in items}


def test_a_study_that_read_nothing_has_no_chapter(results_copy, tmp_path):
    shutil.rmtree(results_copy.results_dir / "published")
    unread = replace(results_copy.report_data, results_dir=results_copy.results_dir)
    assert not any(values.measured(unread).values())
    assert figures.floats(unread) == tables.floats(unread) == []
    page = results_copy.build(tmp_path / "report").html.read_text(encoding="utf-8")
    assert "Published results" not in page and "sec-published" not in page
    assert "Threats to validity" in page


def test_half_a_reading_stops_the_build_and_is_named(results_copy, tmp_path):
    (results_copy.results_dir / "published" / "signs.csv").unlink()
    with pytest.raises(
        MeshperfError, match=r"published/signs\.csv is missing: run notebooks/10-read-published"
    ):
        results_copy.build(tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_reading_is_the_same_after_it_was_written(read, tmp_path):
    results.write(read, tmp_path)
    again = results.load(tmp_path)
    for name, frame in results.frames(read).items():
        pd.testing.assert_frame_equal(results.frames(again)[name], frame)
    assert read.findings.loc[read.findings["rule"] == "captions", "table"].tolist() == ["9.10", "2"]


def test_every_source_is_cited_and_in_the_list_of_references(rendered, read):
    page = rendered.built.html.read_text(encoding="utf-8")
    bibliography = (PAPER / "references.bib").read_text(encoding="utf-8")
    for source in read.sources["source"]:
        assert f"{{{source}," in bibliography
        assert f'id="ref-{source}"' in page


def test_reprints_are_shown_with_both_numbers_and_places(floats):
    frame = floats["tbl-published-reprints"].frame.set_index("Cell")
    assert len(frame) == 22
    # Table 9.1, row 16 against table 9.8, row 1; and the cell that differs throughout.
    assert frame.loc["Istio basic, 700 RPS", ["Table · row", "RPS", "99th"]].tolist() == [
        "9.1 · 16\n9.8 · 1",
        "693.1\n685.5",
        "same",
    ]
    assert frame.loc["Linkerd mTLS, 100 RPS", ["RPS", "Mean", "99th"]].tolist() == [
        "99.98\n100",
        "7.403\n5.933",
        "59.95\n51.51",
    ]


def test_the_sign_table_says_what_chance_would_give(floats):
    frame = floats["tbl-published-signs"].frame
    row = frame[(frame["of"] == "p99") & (frame["faster"] == "20 of 32")].iloc[0]
    assert row[["by chance", "p", "within noise"]].tolist() == ["16.0", "0.22", "22 of 32"]


def test_the_capacity_table_says_what_does_not_fit(floats):
    frame = floats["tbl-published-capacity"].frame
    assert frame["fits"].tolist() == ["yes", "yes", "yes", "no", "no", "yes", "yes", "yes", "yes"]
    assert frame.loc[4, ["asks for", "of", "share"]].tolist() == ["4.06 cores", "2", "203 %"]


def test_costs_of_this_campaign_stand_beside_the_published_ones(rendered, floats):
    frame = floats["tbl-published-costs"].frame
    osm = frame[frame["Document"] == "OSM page"].iloc[0]
    # 9.6/4.4 = 2.18, 9.4/4.3 = 2.19, 9.7/4.2 = 2.31, 9.4/4.3, 9.8/4.5 = 2.18
    assert osm[["p50", "p99"]].tolist() == ["–", "2.18 to 2.31"]
    comparisons_df = pd.read_csv(rendered.results_dir / "comparisons.csv")
    mine = comparisons_df.query(
        "mesh == 'istio' and configuration == 'basic' and quantile == 0.5 and estimand == 'typical'"
    )["overhead_ratio"]
    ours = frame[frame["Mesh"] == "Istio basic"].iloc[-1]
    low, high = (float(text) for text in ours["p50"].split(" to "))
    assert (low, high) == (pytest.approx(mine.min(), abs=0.006), pytest.approx(mine.max(), abs=0.006))


def test_prose_holds_the_numbers_of_the_reading(rendered, read):
    page = re.sub(r"<[^>]+>", " ", rendered.built.html.read_text(encoding="utf-8"))
    page = re.sub(r"\s+", " ", page)
    counts = read.side_by_side["direction"].value_counts()
    assert (
        f"Of {len(read.side_by_side)} comparisons the direction agrees in {counts.get('agrees', 0)}" in page
    )
    assert "52 cells appear a second time, 22 of them with other numbers" in page
    assert "is on average 1.62 times that without (geometric mean of 32 ratios)" in page


@pytest.mark.parametrize("tail", [False, True])
def test_a_band_is_drawn_as_points_and_rectangles_and_never_as_a_curve(read, tail):
    mine = read.bands.query("comparison == 'basic' and target_rps == 400")
    axes = plots.bands(mine, "title", tail=tail).axes[0]
    assert len(mine) == 5 * 4
    assert [type(patch) for patch in axes.patches] == [Rectangle] * (2 * len(mine))
    assert len(axes.lines) == 5
    for line in axes.lines:
        assert line.get_linestyle() == "None", "a line between printed quantiles"
        assert line.get_xdata().size == 5
    istio = mine[mine["mesh"] == "istio"].iloc[0]
    lowest = 1 - istio["cdf_high"] if tail else istio["cdf_low"]
    # Table 9.1, row 11: the median is 6.89 ms, p90 is 68.81 ms.
    corners = [
        (patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height()) for patch in axes.patches
    ]
    assert any(np.allclose(corner, (6.89, lowest, 68.81 - 6.89, 0.4)) for corner in corners)


def test_the_heat_map_marks_the_cells_that_nothing_stands_behind(read):
    mine = read.estimability[read.estimability["source"] == results.MAIN]
    axes = plots.estimability(mine).axes[0]
    texts = {
        (text.get_position()[0], text.get_position()[1]): text.get_text().replace("\n", "")
        for text in axes.texts
    }
    # 100 RPS for 70 s, at 99.17 to 100 RPS reached: 0.69 to 0.7 requests beyond p99.99.
    assert texts[0, 4] == "0.69–0.7"
    assert plots.cell_kind(mine[mine["quantile"] == 0.9999]) == "n.e."
    assert plots.cell_kind(mine[mine["quantile"] == 0.5]) == "dagger"
