"""The rendered report of a synthetic study: what a reader of the HTML and of the PDF gets."""

import html
import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pypdf
import pytest
from paper.paper_study import PAPER, Rendered, analysed
from support import make_study

from meshperf.design import RunKey
from meshperf.published import tables as published_tables
from meshperf.report import data, figures, sentences, style, tables, values

NOT_A_NUMBER = re.compile(r"\b(nan|NaN|None|inf|undefined)\b")


def text_of(page: str) -> str:
    """What a reader sees of an HTML page: no scripts, no tags."""
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


@pytest.fixture(scope="module")
def page(rendered):
    return rendered.built.html.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pdf(rendered):
    return pypdf.PdfReader(rendered.built.pdf)


@pytest.fixture(scope="module")
def pdf_text(pdf):
    return "\n".join(sheet.extract_text() for sheet in pdf.pages)


def test_renders_fast(rendered):
    assert rendered.built.seconds < 60


def test_nothing_is_left_unresolved(page, pdf_text):
    for text in (text_of(page), pdf_text):
        assert not re.search(r"\{\{<|\?var:|\?@|@(fig|tbl|sec)-", text)
        assert not NOT_A_NUMBER.search(text)


def test_names_the_campaign_and_the_hash_of_its_data(rendered, page, pdf_text):
    for text in (text_of(page), pdf_text):
        assert rendered.report_data.campaign in text
        assert rendered.report_data.data_hash in text


def test_says_which_renderer_made_it(rendered, page, pdf_text):
    if rendered.built.renderer.startswith("Quarto"):
        pytest.skip("rendered by Quarto, which is what the title page would otherwise excuse")
    for text in (text_of(page), pdf_text):
        assert "because Quarto was not found" in text


def test_floats_are_numbered_without_gaps_and_references_lead_to_them(page, pdf_text):
    numbered = re.findall(r"\b(Figure|Table)\s+([A-Z\d])\.(\d+):", text_of(page))
    by_chapter = {}
    for kind, chapter, number in numbered:
        by_chapter.setdefault((kind, chapter), []).append(int(number))
    assert {("Figure", "6"), ("Table", "6"), ("Figure", "A"), ("Table", "B")} <= set(by_chapter)
    for numbers in by_chapter.values():
        assert numbers == list(range(1, len(numbers) + 1))
    assert Counter(numbered) == Counter(
        re.findall(r"\b(Figure|Table)\s+([A-Z\d])\.(\d+):", pdf_text.replace("\n", " "))
    )
    identifiers = set(re.findall(r'\bid="([^"]+)"', page))
    for target in re.findall(r'href="#([^"]+)"', page):
        assert target in identifiers


def test_every_result_knows_the_arms_whose_caveats_its_caption_says(rendered):
    data = rendered.report_data
    results = [*figures.floats(data), *tables.floats(data)]
    # Checks of runs, plans and control are no results of a mesh, and what others printed is none of ours.
    others = ("02-check-runs", "06-check-control", "12-plan-blocks")
    results = {item.label: item.arms for item in results if item.notebook not in others and not item.origin}
    del results["tbl-configurations"]
    assert len(results) >= 8 and all(results.values()), results
    for label in ("fig-overhead", "fig-resources", "tbl-latency", "tbl-overhead", "tbl-resources"):
        assert set(data.mesh_arms) <= set(results[label])


def _captions_of_data(page):
    """Return all captions but that of the table that is made from code."""
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page, flags=re.DOTALL)
    of_data = [caption for caption in captions if "meshperf.meshes" not in caption]
    assert len(captions) == len(of_data) + 1
    return of_data


def test_captions_end_with_notebook_campaign_and_data(rendered, page):
    captions = _captions_of_data(page)
    assert len(captions) > 20
    ours = f"campaign {rendered.report_data.campaign}; data {rendered.report_data.data_hash}"
    theirs = f"published tables; data {published_tables.load().data_hash}"
    end = rf"Notebook \d\d-[\w-]+; ({ours}|{theirs})\.$"
    ends = {caption: re.search(end, text_of(caption).strip()) for caption in captions}
    assert [caption for caption, found in ends.items() if found is None] == []
    assert {found[1] for found in ends.values()} == {ours, theirs}


def test_every_image_exists_and_is_described(rendered, page):
    images = re.findall(r'<img src="([^"]+)" alt="([^"]*)"', page)
    assert len(images) == page.count("<img ")
    for source, alternative in images:
        assert (rendered.out_dir / source).is_file()
        assert len(alternative) > 40


def test_html_needs_nothing_from_elsewhere(rendered, page):
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    # References may link to where a source is published; nothing is loaded from there.
    cited = re.findall(r'<a\s[^>]*href="(https://[^"]+)"', page)
    files = [link for link in links if not re.match(r"#|data:", link) and link not in cited]
    assert files
    for link in files:
        assert (rendered.out_dir / link).is_file(), link


def test_pdf_has_title_contents_bookmarks_and_page_numbers(pdf, pdf_text):
    assert pdf.metadata.title == "What a service mesh costs"

    def titles(outline):
        for item in outline:
            yield from titles(item) if isinstance(item, list) else [item.title]

    bookmarks = list(titles(pdf.outline))
    for wanted in (
        "Abstract",
        "1 For a decision",
        "4 Method",
        "6 Results",
        "A Performance evaluation",
        "References",
    ):
        assert wanted in bookmarks
    assert "Contents" in pdf_text
    last = pdf.pages[-1].extract_text().strip().splitlines()
    assert str(len(pdf.pages) - 1) in last  # the title page carries no number


def test_pdf_embeds_every_font(pdf):
    fonts = set()
    for sheet in pdf.pages:
        for font in (sheet["/Resources"].get("/Font") or {}).values():
            description = font.get_object()
            for part in description.get("/DescendantFonts", [description]):
                descriptor = part.get_object()["/FontDescriptor"].get_object()
                fonts.add(descriptor["/FontName"])
                assert {"/FontFile", "/FontFile2", "/FontFile3"} & set(descriptor)
    assert fonts


def test_synthetic_data_are_stamped_everywhere(rendered, page, pdf, pdf_text):
    assert "SYNTHETIC DATA" in pdf.pages[0].extract_text()
    assert "SYNTHETIC DATA" in text_of(page)[:600]
    for caption in _captions_of_data(page):
        assert ("SYNTHETIC DATA" in caption) == ("; published tables;" not in text_of(caption))
    for figure in [item for item in figures.floats(rendered.report_data) if not item.origin]:
        for panel in figure.panels:
            assert "SYNTHETIC DATA" in [text.get_text() for text in panel.draw().texts], panel.stem


def test_headline_is_the_comparison_of_the_analysis(rendered, page):
    frame = pd.read_csv(rendered.results_dir / "comparisons.csv")
    row = frame.query(
        "mesh == 'istio' and configuration == 'basic' and target_rps == 400"
        " and quantile == 0.5 and estimand == 'typical'"
    ).iloc[0]
    assert 1.3 < row.overhead_ratio < 1.7  # the truth of the simulation is 1.5
    wanted = f"{row.overhead_ratio:.2f} [{row.ratio_low:.2f}, {row.ratio_high:.2f}] times that of no mesh"
    assert wanted in re.sub(r"\s+", " ", text_of(page))


def test_latency_table_is_the_cells_of_the_analysis(rendered):
    frame = pd.read_csv(rendered.results_dir / "cells.csv")
    row = frame.query("mesh == 'baseline' and target_rps == 100 and quantile == 0.9").iloc[0]
    printed = pd.read_csv(rendered.results_dir / "tables" / "latency.csv")
    cell = printed[(printed["Solution"] == "no mesh") & (printed["target RPS"] == 100)]["90th"].item()
    estimate, low, high = (
        float(number) for number in re.findall(r"[\d.]+", cell.split("^")[0] + cell.split("^")[-1])[:3]
    )
    assert [estimate, low, high] == pytest.approx(
        [row.estimate_s * 1e3, row.low_s * 1e3, row.high_s * 1e3], abs=0.006
    )


def test_ledger_counts_every_run_attempt_and_verdict(rendered):
    ledger = pd.read_csv(rendered.results_dir / "tables" / "ledger.csv").set_index("Solution")
    # 6 blocks, 2 rates: the baseline twice per block; one run degraded, one attempt broken (conftest).
    assert ledger.loc["no mesh", ["planned", "measured", "ok"]].tolist() == [24, 24, 24]
    assert ledger.loc["Istio mTLS", ["planned", "measured", "ok", "degraded"]].tolist() == [12, 12, 11, 1]
    assert ledger.loc["Istio basic", "broken attempts"] == 1
    assert ledger.loc["all", "measured"] == 48


def test_annex_has_the_structure_of_the_thesis(page):
    heads = [
        re.sub(r"\s+", " ", text_of(head)).strip()
        for head in re.findall(r"<h[123][^>]*>(.*?)</h[123]>", page, re.DOTALL)
    ]
    annex = heads[heads.index("A Performance evaluation") :]
    assert annex == [
        "A Performance evaluation",
        "A.1 Comparison with the configuration basic",
        "A.1.1 Graphics",
        "A.1.2 Latencies table",
        "A.1.3 Resource consumption table",
        "A.2 Comparison with the configuration mTLS",
        "A.2.1 Graphics",
        "A.2.2 Latencies table",
        "A.2.3 Resource consumption table",
        "B Istio: feature impact on performance",
        "B.1 Graphics",
        "B.2 Latencies table",
        "B.3 Resource consumption table",
        "B.4 Cost of single features",
    ]


def test_every_figure_has_its_numbers_beside_it(rendered):
    directory = rendered.results_dir / "figures"
    described = json.loads((directory / "figures.json").read_text(encoding="utf-8"))
    stems = {path.stem for path in directory.glob("*.svg")}
    assert stems == set(described) == {path.stem for path in directory.glob("*.csv")}
    curve = pd.read_csv(directory / "cdf-all-400.csv")
    for _, arm in curve.groupby(["mesh", "configuration"]):
        assert (np.diff(arm["cdf"]) >= 0).all()
        assert np.allclose(arm["cdf"] + arm["ccdf"], 1)


def test_figures_are_vectors_with_text_as_paths(rendered):
    for path in (rendered.results_dir / "figures").glob("*.svg"):
        drawing = path.read_text(encoding="utf-8")
        assert "<text" not in drawing, "text needs a font where the figure is read"
        assert "<image" not in drawing, "a raster image"


def test_the_same_study_gives_the_same_bytes(rendered, tmp_path):
    again = rendered.build(tmp_path / "report")
    assert again.html.read_bytes() == rendered.built.html.read_bytes()
    assert again.pdf.read_bytes() == rendered.built.pdf.read_bytes()
    panel = figures.floats(rendered.report_data)[0].panels[0]
    redrawn = style.save_svg(panel.draw(), tmp_path / "again.svg")
    assert redrawn.read_bytes() == (rendered.results_dir / "figures" / f"{panel.stem}.svg").read_bytes()


def test_executed_notebooks_are_published_and_linked(results_copy, tmp_path):
    notebooks = results_copy.results_dir / "notebooks"
    notebooks.mkdir()
    (notebooks / "04-compare-arms.html").write_text("<p>executed</p>", encoding="utf-8")
    built = results_copy.build(tmp_path / "report")
    assert '<a href="notebooks/04-compare-arms.html">04-compare-arms</a>' in built.html.read_text(
        encoding="utf-8"
    )
    assert (tmp_path / "report/notebooks/04-compare-arms.html").is_file()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two blocks of one arm, without resources: half of the paper must go."""
    study = make_study(
        study="small", blocks=2, arms=[{"mesh": "istio", "configurations": ["mtls"]}], target_rps=[200]
    )
    made = analysed(tmp_path_factory.mktemp("small"), study, resources=False)
    return made, made.build(made.out_dir).html.read_text(encoding="utf-8")


def test_too_few_blocks_are_said_and_no_interval_is_printed(small):
    _, page = small
    text = re.sub(r"\s+", " ", text_of(page))
    assert "too few blocks for intervals" in text
    assert not re.search(r"\d \[\d", text)
    assert "Brackets are" not in text
    assert not NOT_A_NUMBER.search(text)


def test_what_was_not_measured_is_left_out(small):
    _, page = small
    text = text_of(page)
    assert "tbl-resources" not in page and "fig-resources" not in page
    assert "Resource consumption" not in text
    assert "feature impact" not in text  # one configuration only
    assert "The rest (" not in text  # every run is ok


def test_a_saturated_cell_is_shown_and_not_compared(tmp_path):
    study = make_study(
        study="saturated",
        blocks=3,
        target_rps=[200],
        load={"connections": 4, "duration_s": 2.5, "slice_s": 2.5},
    )
    keys = [RunKey("istio", "mtls", 200, block, 1) for block in (1, 2, 3)]
    made = analysed(
        tmp_path, study, verdicts=dict.fromkeys(keys, "saturated"), achieved_ratio=dict.fromkeys(keys, 0.8)
    )
    latency = pd.read_csv(made.results_dir / "tables" / "latency.csv")
    assert latency["Solution"].tolist() == ["no mesh", "Istio basic", "Istio mTLS *saturated*"]
    overhead = pd.read_csv(made.results_dir / "tables" / "overhead.csv")
    refused = overhead[overhead["Solution"] == "Istio mTLS"]
    assert set(refused["ratio"]) == {"–"}
    assert refused["verdict"].str.startswith("not comparable (saturated)").all()
    text = text_of(made.build(made.out_dir).html.read_text(encoding="utf-8"))
    assert not NOT_A_NUMBER.search(text)


def test_a_study_that_compares_nothing_still_has_a_report(tmp_path):
    study = make_study(
        study="nothing",
        blocks=1,
        target_rps=[200],
        load={"connections": 4, "duration_s": 2.5, "slice_s": 2.5},
    )
    keys = [RunKey("istio", name, 200, 1, 1) for name in ("basic", "mtls")]
    made = analysed(
        tmp_path, study, verdicts=dict.fromkeys(keys, "saturated"), achieved_ratio=dict.fromkeys(keys, 0.8)
    )
    text = re.sub(r"\s+", " ", text_of(made.build(made.out_dir).html.read_text(encoding="utf-8")))
    assert "No cell of this study could be compared with its baseline" in text


def test_failed_and_saturated_runs_are_not_drawn_into_the_distributions(rendered):
    report_data = rendered.report_data
    runs_df = report_data.runs_df.copy()
    of_arm = runs_df.query("mesh == 'istio' and configuration == 'basic' and target_rps == 400").index
    runs_df.loc[of_arm[:2], "verdict"] = ["failed", "saturated"]
    counted = replace(report_data, runs_df=runs_df).counted(report_data.histograms_df)
    left = counted.query("mesh == 'istio' and configuration == 'basic' and target_rps == 400")[
        "block"
    ].unique()
    assert set(left) == set(runs_df.loc[of_arm[2:], "block"])
    others = counted.query("target_rps == 100")
    assert len(others) == len(report_data.histograms_df.query("target_rps == 100"))


def test_runs_that_were_not_steady_are_listed(rendered):
    report_data = rendered.report_data
    assert "tbl-unsteady" not in {table.label for table in tables.floats(report_data)}
    runs_df = report_data.runs_df.copy()
    runs_df.loc[[3, 5], ["steadiness", "warmup_slices", "n_slices", "drift_ratio"]] = [
        "not steady",
        9,
        24,
        1.2,
    ]
    marked = replace(report_data, runs_df=runs_df)
    (table,) = (table for table in tables.floats(marked) if table.label == "tbl-unsteady")
    assert table.frame["warm-up slices"].tolist() == ["9 of 24"] * 2
    assert table.frame["order"].tolist() == [str(order) for order in runs_df.loc[[3, 5], "order"]]
    assert "fig-time-course" in {figure.label for figure in figures.floats(marked)}
    assert values.measured(marked)["steadiness"]
    assert values.collect(marked)["campaign"]["unsteady"] == "2 runs"


def test_a_control_that_fails_opens_the_report(rendered, tmp_path):
    gate_df = rendered.report_data.gate_df.assign(passed="no", warnings="AAGateFailed")
    results_dir = tmp_path / "results"
    shutil.copytree(rendered.results_dir, results_dir, ignore=shutil.ignore_patterns("report"))
    gate_df.to_csv(results_dir / "gate.csv", index=False)
    failed = Rendered(rendered.study, rendered.campaign_dir, results_dir, rendered.report_data)
    values.write(data.load(rendered.study, results_dir, rendered.campaign_dir), results_dir / "values.yml")
    page = text_of(failed.build(tmp_path / "report").html.read_text(encoding="utf-8"))
    assert page.index("Environment not exchangeable") < page.index("A service mesh puts a proxy")
    assert "the two baselines of this campaign differ more than chance allows" in page


def test_a_validation_is_summed_up_with_its_counter_examples(rendered):
    columns = [
        "check",
        "scenario",
        "method",
        "quantile",
        "n_blocks",
        "value",
        "required_low",
        "required_high",
        "naive",
    ]
    rows = [
        ("coverage", "A", "paired t", 0.5, 5, 0.948, 0.93, 0.97, False),
        ("coverage", "B", "paired t", 0.5, 5, 0.951, 0.93, 0.97, False),
        ("coverage", "B", "paired t", 0.5, 10, 0.925, 0.93, 0.97, False),
        ("coverage", "B", "requests resampled", 0.5, 5, 0.04, None, None, True),
        ("coverage", "B", "requests resampled", 0.5, 10, 0.05, None, None, True),
        ("chi-square of the deciles of p", "A/A", "permutation D", None, 5, 9.1, None, 21.67, False),
    ]
    frame = pd.DataFrame(rows, columns=columns).assign(n_campaigns=4000, commit="0123abcd")
    frame["passed"] = frame["value"] != 0.925
    validated = replace(rendered.report_data, validation_df=frame)
    (table,) = (table for table in tables.floats(validated) if table.label == "tbl-validation")
    printed = table.frame.set_index("method")
    assert printed.loc["paired t"].tolist() == [
        "coverage",
        "A, B",
        "5, 10",
        "92.5 % to 95.1 %",
        "93.0 % to 97.0 %",
        "2 of 3",
    ]
    naive = printed.loc["*requests resampled*"]
    assert naive[["found", "required", "within"]].tolist() == ["4.0 % to 5.0 %", "counter-example", ""]
    chi_square = printed.loc["permutation D"]
    assert chi_square[["found", "required", "within"]].tolist() == ["9.10", "at most 21.7", "1 of 1"]
    assert "0123abcd" in table.markdown(validated)
    (figure,) = (figure for figure in figures.floats(validated) if figure.label == "fig-validation")
    assert [panel.stem for panel in figure.panels] == ["coverage-p50"]
    assert figure.panels[0].draw().axes[0].lines[0].get_ydata() == pytest.approx([95.1, 92.5])
    assert "tbl-validation" not in {
        item.label for item in tables.floats(replace(validated, validation_df=frame.iloc[:0]))
    }


def test_a_plan_that_was_changed_is_said_to_be(rendered):
    study = rendered.study.model_copy(
        update={"analysis": rendered.study.analysis.model_copy(update={"alpha": 0.1})}
    )
    changed = replace(rendered.report_data, study=study)
    assert values.measured(changed)["plan_changed"]
    assert sentences.all_sentences(changed)["changed-plan"] == "- analysis.alpha: 0.05, now 0.1\n"
    assert not values.measured(rendered.report_data)["plan_changed"]


def test_measured_data_are_not_stamped(rendered):
    measured = replace(rendered.report_data, design={**rendered.report_data.design, "synthetic": False})
    for item in (*figures.floats(measured), *tables.floats(measured)):
        assert "SYNTHETIC" not in item.markdown(measured)
    assert figures.floats(measured)[0].panels[0].draw().texts == []


def test_every_variable_is_used(rendered):
    sources = "".join(path.read_text(encoding="utf-8") for path in PAPER.glob("*.qmd"))
    used = set(re.findall(r"\{\{< var ([\w.]+) >\}\}", sources))
    defined = {
        f"{group}.{name}" for group, names in values.collect(rendered.report_data).items() for name in names
    }
    assert defined == used


def test_conditions_of_the_paper_are_those_that_are_defined(rendered):
    sources = "".join(path.read_text(encoding="utf-8") for path in PAPER.glob("*.qmd"))
    used = set(re.findall(r'meta="measured\.([\w-]+)"', sources))
    labels = {name for name in used if name.startswith(("fig-", "tbl-"))}
    assert used - labels == set(values.measured(rendered.report_data))
    # A label is a condition, too: one that nothing makes would hide its part of the paper from every study.
    made = {
        item.label for item in (*figures.floats(rendered.report_data), *tables.floats(rendered.report_data))
    }
    assert labels <= made | RARE
    for label in labels:
        assert f"_generated/{label}.qmd" in sources


#: What a study of short and steady runs does not have, and what comes from hours of simulation; tests of their own
#: make it.
RARE = {"tbl-unsteady", "fig-time-course", "tbl-validation", "fig-validation"}


@pytest.mark.parametrize("chapter", ["index.qmd", "results.qmd", "testbed.qmd", "published.qmd"])
def test_no_number_is_typed_into_prose_of_results(chapter):
    prose = (PAPER / chapter).read_text(encoding="utf-8")
    prose = re.sub(r"\{\{<.*?>\}\}|\{#[^}]*\}|@[\w-]+|p\d+", "", prose)
    found = re.findall(r"\b\d[\d.,]*\s*(?:%|ms|s|µs|RPS|requests|MiB|mCPU|cores|blocks|runs)?", prose)
    assert found == []
