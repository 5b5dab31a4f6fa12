"""The published tables are those of the documents: counted, compared with values read by eye, and guarded."""

import shutil

import numpy as np
import pytest

from meshperf.errors import MeshperfError
from meshperf.published import tables


@pytest.fixture(scope="module")
def published():
    return tables.load()


@pytest.fixture
def copy(tmp_path):
    """The published data in a directory of their own, to be damaged."""
    return shutil.copytree(tables.directory(), tmp_path / "published")


def printed_row(published, name, table, row):
    text = published.printed[name]
    (found,) = text[(text["table"] == table) & (text["row"] == str(row))].to_dict("records")
    return list(found.values())[3:]


# Counted in the documents.
ROWS = {
    "latency": {
        "9.1": 20,
        "9.2": 20,
        "9.5": 12,
        "9.6": 16,
        "9.7": 18,
        "9.8": 18,
        "9.9": 21,
        "9.10": 24,
        "9.11": 21,
    },
    "resources": {"9.3": 20, "9.4": 20},
    "oha": {"1": 4, "2": 4, "3": 4, "4": 4, "5": 4, "6": 4},
    "osm": {"1": 10},
    "multicluster": {"1": 3, "2": 3},
}


@pytest.mark.parametrize("name", ROWS)
def test_every_printed_row_is_there_once(published, name):
    text = published.printed[name]
    assert text.groupby("table").size().to_dict() == ROWS[name]
    place = ["table", "row", "column"] if name == "osm" else ["table", "row"]
    assert not text.duplicated(place).any()
    for _, rows in text.groupby("table"):
        assert sorted({int(row) for row in rows["row"]}) == list(range(1, rows["row"].nunique() + 1))


def test_the_totals_are_those_of_the_thesis(published):
    assert (len(published.latency_df), len(published.resources_df)) == (170, 40)


def test_the_catalogue_counts_the_rows_of_every_table(published):
    held = published.captions[published.captions["file"] != ""]
    for caption in held.itertuples():
        text = published.printed[caption.file.removesuffix(".csv")]
        mine = text[(text["source"] == caption.source) & (text["table"] == caption.number)]
        head = caption.file == "other_tables.csv"
        assert mine["row"].nunique() - head == int(caption.rows), caption
    assert len(held) == 11 + 16 + 1 + 2
    # 30 distribution figures in the thesis annex, 5 figures in the article on three meshes.
    assert (published.captions["kind"] == "figure").sum() == 35


@pytest.mark.parametrize(
    ("name", "table", "row", "expected"),
    [
        ("latency", "9.1", 1, "istio,basic,100,100,6.653,4.898,9.171,41.31,79.99,87.26"),
        ("latency", "9.1", 5, "without mesh,,100,99.17,8.699,3.407,13.59,51.2,119,1822"),
        ("latency", "9.2", 18, "linkerd,basic,1800,1579,78.51,53.36,174.3,506.5,978.2,2001"),
        ("latency", "9.5", 2, "kuma,mTLS,100,99.32,9.245,4.607,11.14,57.65,98.19,1632"),
        ("latency", "9.6", 6, "kuma,mTLS,1000,953.5,51.64,35.57,92.62,291,605,6515"),
        ("latency", "9.7", 3, "istio,mTLS + metrics,100,99.79,9.133,5.499,11.74,72.39,146.7,385.2"),
        ("latency", "9.8", 12, "istio,JWT (OPA),1200,973.4,103.6,89.49,187.8,361.7,1446,1987"),
        ("latency", "9.9", 21, "linkerd,mTLS + metrics,1500,1332,69.4,45.94,153.2,477.9,912,1893"),
        ("latency", "9.10", 4, "kuma,mTLS + JWT,100,99.9,6.897,4.089,8.779,69.55,92.87,309.1"),
        ("latency", "9.11", 14, "consul,mTLS,1000,964.3,61.09,67.53,97.53,210.3,406,688.4"),
        ("resources", "9.3", 2, "kuma,100,120,31.3,91.8,6.89"),
        ("resources", "9.4", 20, "without mesh,1800,129,-,323,-"),
        ("oha", "1", 1, "Pod to Service communication,32,300000,Istio,,2494.2895,120.2747,0.2641,0.3267,0.3872,0.4350"),
        ("oha", "6", 3, "VM to Ingress communication,128,300000,Baseline,:eight_pointed_black_star:,"
                        "2230.1591,134.5196,0.8579,1.0467,3.0331,3.1438"),
        ("multicluster", "1", 3, "AWS,NSM vl3,1;332.38,0.74,0.84,1.04,2.45"),
        ("multicluster", "2", 2, "Packet,Kuma,4;538.77,0.22,0.25,0.29,2.55"),
    ],
)  # fmt: skip
def test_cells_are_those_read_in_the_document(published, name, table, row, expected):
    assert printed_row(published, name, table, row) == [
        cell.replace(";", ",") for cell in expected.split(",")
    ]


def test_the_osm_table_is_its_two_printed_rows(published):
    text = published.printed["osm"]
    by_row = {mesh: rows["p99_ms"].tolist() for mesh, rows in text.groupby("mesh")}
    assert by_row == {
        "w/o OSM": ["4.4", "4.3", "4.2", "4.3", "4.5"],
        "w/ OSM": ["9.6", "9.4", "9.7", "9.4", "9.8"],
    }
    assert text["target_rps"].tolist() == ["100", "500", "1000", "2000", "4000"] * 2


def test_typed_frames_are_in_si_units_and_our_names(published):
    first = published.latency_df.iloc[4]
    assert (first["mesh"], first["configuration"]) == ("baseline", "none")
    assert first["p9999_s"] == pytest.approx(1.822)
    resources = published.resources_df.iloc[0]
    assert resources["service_ram_bytes"] == 114 * 2**20
    assert resources["sidecar_cores"] == pytest.approx(0.0166)
    assert published.resources_df.query("mesh == 'baseline'")["sidecar_cores"].isna().all()
    assert published.multicluster_df["achieved_rps"].max() == 5148.70
    assert set(published.oha_df["mesh"]) == {"baseline", "istio", "linkerd", "cilium"}
    assert published.oha_df["marked"].sum() == 2


@pytest.mark.parametrize(
    ("printed", "value", "half"), [("1,332.38", 1332.38, 0.005), ("119", 119, 0.5), ("0.74", 0.74, 0.005)]
)
def test_a_printed_number_and_what_rounding_hides(printed, value, half):
    assert tables.number(printed) == value
    assert tables.half_unit(printed) == pytest.approx(half)
    assert np.isnan(tables.number("-"))


def test_claims_quote_a_figure_with_its_place(published):
    claims = published.claims
    assert not claims.duplicated("claim").any()
    for claim in claims.itertuples():
        assert claim.value in claim.quote
        assert int(claim.paragraph) > 0 and int(claim.sentence) > 0
        assert (claim.value == "") == (claim.kind == "ranking"), claim.claim
    cpu = claims[claims["quantity"] == "CPU of a sidecar for every 100 RPS"].iloc[0]
    assert (cpu["value"], cpu["unit"], cpu["section"]) == ("0.1", "cores", "Resource Consumption")
    memory = claims[claims["quantity"] == "control-plane memory for each pod added"].iloc[0]
    assert (memory["value"], memory["unit"]) == ("1", "MB")
    docker = claims[claims["quantity"] == "Istio over plain Docker"].iloc[0]
    assert (docker["value"], docker["unit"]) == ("3", "ms")


def test_conditions_that_a_document_states_are_its_claims(published):
    claims = published.claims.set_index("claim")
    for condition in published.conditions[
        published.conditions["where"].str.startswith("claims.csv, ")
    ].itertuples():
        claim = claims.loc[condition.where.removeprefix("claims.csv, ")]
        factor = {"millicores": 1e-3, "minute": 60}.get(claim["unit"], 1)
        assert float(condition.value) == pytest.approx(float(claim["value"]) * factor)
        assert condition.stated == "yes"


def test_every_source_is_described_and_used(published):
    sources = set(published.sources["source"])
    assert sources == set(published.captions["source"])
    for name in ("latency", "resources", "oha", "osm", "multicluster", "claims", "conditions"):
        assert set(published.printed[name]["source"]) <= sources
    assert published.sources["url"].str.startswith("https://").all()


def test_an_edited_table_is_refused(copy):
    path = copy / "latency.csv"
    path.write_text(path.read_text().replace("1822", "182.2"))
    with pytest.raises(MeshperfError, match=r"latency\.csv is not the file of SHA256SUMS"):
        tables.load(copy)


def test_a_missing_and_an_added_file_are_named(copy):
    (copy / "more.csv").write_text("a\n")
    with pytest.raises(MeshperfError, match=r"more\.csv is not the file of SHA256SUMS"):
        tables.load(copy)
    (copy / "more.csv").unlink()
    (copy / "osm.csv").unlink()
    with pytest.raises(MeshperfError, match=r"osm\.csv is missing"):
        tables.load(copy)


def test_a_renamed_column_is_named(copy):
    path = copy / "osm.csv"
    path.write_text(path.read_text().replace("p99_ms", "p99", 1))
    with pytest.raises(MeshperfError, match=r"osm\.csv has the columns .*they must be"):
        tables.read("osm", copy)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("mesh", "mesh-o-matic", "table 9.1, row 2: the mesh 'mesh-o-matic' has no name here"),
        ("mean_ms", "8.4.31", "table 9.1, row 2: mean_ms is '8.4.31', which is no number"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(published, column, value, message):
    text = published.printed["latency"].copy()
    text.loc[1, column] = value
    with pytest.raises(MeshperfError) as caught:
        tables._latency(text)
    assert message in str(caught.value)
