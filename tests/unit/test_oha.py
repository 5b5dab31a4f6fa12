"""oha's results: everything that the files say, and damage refused in a sentence.

``tests/golden/foreign/oha-*`` was recorded with oha of the version in the name against a server on the loopback
interface.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from meshperf.loadgen import oha
from meshperf.loadgen.result import ResultError

GOLDEN = Path(__file__).parents[1] / "golden" / "foreign"
RECORDED = sorted(path for path in GOLDEN.glob("oha-*") if "refused" not in path.name)


def read(name):
    return oha.read_result((GOLDEN / name).read_text(), name)


#: Eleven responses of 1, 2, ..., 11 ms: worked out by hand from ``histogram.rs`` and ``percentile_iter``.
def by_hand(**changes):
    return {
        "summary": {
            "successRate": 1.0,
            "total": 2.0,
            "slowest": 0.011,
            "fastest": 0.001,
            "average": 0.006,
            "requestsPerSec": 5.5,
        },
        "responseTimeHistogram": {str(k / 1000): 1 for k in range(1, 12)},
        # floor(p n/100) from 0: 1, 2, 5, 8, 9, 10, 10, 10, 10.
        "latencyPercentiles": {
            "p10": 0.002, "p25": 0.003, "p50": 0.006, "p75": 0.009, "p90": 0.01, "p95": 0.011, "p99": 0.011,
            "p99.9": 0.011, "p99.99": 0.011,
        },
        "statusCodeDistribution": {"200": 11},
        "errorDistribution": {},
        **changes,
    }  # fmt: skip


def test_eleven_responses_by_hand():
    result = oha.read_document(by_hand(), "x.json")
    assert (result.generator, result.n, result.n_errors, result.achieved_rps) == ("oha", 11, 0, 5.5)
    assert (result.duration_s, result.min_s, result.max_s) == (2.0, 0.001, 0.011)
    assert result.sum_s == pytest.approx(0.066)
    # How many lie at or below each bin's edge, exactly.
    latency, share = result.histogram.cdf()
    for k in range(1, 11):
        below = share[np.searchsorted(latency, k / 1000 * (1 + 1e-8)) - 1]
        assert 11 * below == pytest.approx(k), f"{k} ms"
    assert result.histogram.n == 11
    assert {p: result.histogram.quantile(p / 100) for p in (50, 90)} == pytest.approx({50: 0.006, 90: 0.01})


def test_what_oha_does_not_say_is_unknown():
    result = oha.read_document(by_hand(), "x.json")
    assert (result.target_rps_requested, result.rate_limited, result.connections, result.started) == (
        None,
    ) * 4
    assert (result.uniform, result.catch_up, result.sockets, result.resolution_s) == (None,) * 4
    assert np.isnan(result.duration_requested_s)
    assert result.version == ""


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_percentiles_are_the_quantiles_of_the_histogram(path):
    result = oha.read_result(path.read_text(), path.name)
    assert len(result.percentiles) in (7, 9)
    for p, value in result.percentiles.items():
        assert result.histogram.quantile(p / 100) == pytest.approx(
            value, rel=1e-6, abs=1.01 * result.rounding_s
        )
    assert result.histogram.n == sum(result.return_codes.values())


def test_recorded_counts_and_times():
    raw = json.loads((GOLDEN / "oha-1.4.1.json").read_text())
    result = read("oha-1.4.1.json")
    assert (result.n, result.return_codes, result.n_errors) == (300, {"200": 300}, 0)
    assert result.achieved_rps == raw["summary"]["requestsPerSec"]
    assert result.duration_s == raw["summary"]["total"]
    assert (result.min_s, result.max_s) == (raw["summary"]["fastest"], raw["summary"]["slowest"])
    text = read("oha-1.4.1.txt")
    assert (text.n, text.return_codes, text.rounding_s) == (200, {"200": 200}, 5e-5)
    # 201 requests in 2 s, the last of them cut off by the end of time.
    assert round(text.achieved_rps * text.duration_s) == 201
    assert "1 requests under way" in text.notes[0]


def test_versions_differ_in_units_and_percentiles():
    assert len(read("oha-0.5.4.txt").percentiles) == 7
    assert len(read("oha-0.5.4.json").percentiles) == 7
    found = {name: read(f"oha-1.16.0{name}") for name in (".txt", "-us.txt", "-slow.txt", ".json")}
    assert {name: len(result.percentiles) for name, result in found.items()} == dict.fromkeys(found, 9)
    # Four decimals of a millisecond, a microsecond and a second.
    assert found[".txt"].rounding_s == pytest.approx(5e-8)
    assert found["-us.txt"].rounding_s == pytest.approx(5e-11)
    assert found["-slow.txt"].rounding_s == pytest.approx(5e-5)
    # The server waited for 1 ms, and for 1.5 s or 10 ms.
    assert 0.001 < found["-us.txt"].min_s < 0.01
    assert 1.5 < found["-slow.txt"].max_s < 1.6
    for result in found.values():
        assert result.min_s <= result.percentiles[50.0] <= result.max_s


def test_with_a_breakdown_all_responses_count():
    result = read("oha-1.16.0-breakdown.txt")
    assert (result.n, result.histogram.n, result.return_codes) == (200, 200, {"200": 171, "503": 29})


def test_colours_do_not_matter():
    plain = (GOLDEN / "oha-1.4.1-colour.txt").read_text()
    assert "\x1b[38;5;10m" in plain
    result = oha.read_text(plain, "x.txt")
    bare = oha.read_text(oha._ANSI.sub("", plain), "x.txt")
    assert np.array_equal(result.histogram.edges_s, bare.histogram.edges_s)
    assert result.percentiles == bare.percentiles


def test_failed_responses_are_counted_and_named():
    raw = json.loads((GOLDEN / "oha-1.4.1-errors.json").read_text())
    result = read("oha-1.4.1-errors.json")
    failed = raw["statusCodeDistribution"]["503"]
    assert (result.n, result.n_errors, result.n_errors_in_histogram) == (300, failed, failed)
    assert result.failures == {"503": failed}
    assert f"{failed} failed responses" in result.notes[0]


@pytest.mark.parametrize(
    "name", ["oha-1.4.1-refused.json", "oha-1.4.1-refused.txt", "oha-1.16.0-refused.json"]
)
def test_a_run_without_a_response(name):
    result = read(name)
    assert (result.n, result.n_errors, result.histogram.n, result.percentiles) == (20, 20, 0, {})
    assert np.isnan(result.max_s)


def printed(unit="secs", scale=1.0, success="100.00%", heading="Response time distribution", bar="■"):
    """The eleven responses as oha prints them."""
    ms = 0.001 / scale
    lines = ["Summary:", f"  Success rate:\t{success}", f"  Total:\t{2 / scale:.4f} {unit}"]
    lines += [
        f"  Slowest:\t{11 * ms:.4f} {unit}",
        f"  Fastest:\t{ms:.4f} {unit}",
        f"  Average:\t{6 * ms:.4f} {unit}",
    ]
    lines += ["  Requests/sec:\t5.5000", "", "  Total data:\t0 B", "", "Response time histogram:"]
    in_label = "" if unit == "secs" else f" {unit}"
    lines += [f"  {k * ms:.3f}{in_label} [1] |{bar}" for k in range(1, 12)]
    lines += ["", f"{heading}:"]
    document = by_hand()
    for name, value in document["latencyPercentiles"].items():
        lines.append(f"  {float(name[1:]):.2f}% in {value / scale:.4f} {unit}")
    lines += ["", "Details (average, fastest, slowest):", f"  DNS+dialup:\t0.0 {unit}", ""]
    return "\n".join([*lines, "Status code distribution:", "  [200] 11 responses", ""])


@pytest.mark.parametrize(
    ("unit", "scale"),
    [("secs", 1), ("sec", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)],
)
def test_units(unit, scale):
    result = oha.read_text(printed(unit, scale), "x.txt")
    assert result.duration_s == pytest.approx(2)
    assert result.rounding_s == pytest.approx(5e-5 * scale)
    assert result.percentiles[50.0] == pytest.approx(0.006)
    assert result.histogram.quantile(0.5) == pytest.approx(0.006, abs=1.1 * result.rounding_s)
    assert (result.min_s, result.max_s) == (pytest.approx(0.001), pytest.approx(0.011))


def test_tens_of_seconds_are_a_unit():
    # ``timescale.rs``: a slowest response of more than 10 s is printed in units of 10 s.
    text = (
        printed("10 sec", 10)
        .replace("Slowest:\t0.0011", "Slowest:\t1.1000")
        .replace("0.001 10 sec [1]", "0.0")
    )
    with pytest.raises(ResultError):
        oha.read_text(text, "x.txt")
    assert oha._time("2.5000 10 sec") == (25.0, 10.0)
    assert oha._time("1.5000 10 min") == (900.0, 600.0)


def test_the_first_versions_print_a_ratio_and_other_words():
    text = printed(success="1.0000", heading="Latency distribution").replace(".00% in", "% in")
    assert oha.read_text(text, "x.txt").percentiles[99.0] == 0.011


def test_bins_of_the_first_versions():
    """Up to 0.5.3 eleven bins reach from the fastest to three times the average, and hold what is beyond at the end."""
    document = by_hand()
    text = printed()
    lines = text.splitlines()
    start = lines.index("Response time histogram:") + 1
    # Bins of 10/11 ms from 1 ms: (value - 1) 11/10 cut to whole numbers is 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11 -> 10.
    labels = [1 + 10 / 11 * (k + 1) for k in range(11)]
    for offset in (0.0, 1.0):  # up to 0.5.0 the labels left the fastest out
        lines[start : start + 11] = [f"  {(label - offset) / 1000:.3f} [1] |" for label in labels]
        result = oha.read_text("\n".join(lines), "x.txt")
        assert result.histogram.n == 11
        assert not any("labels" in note for note in result.notes)
        assert result.histogram.quantile(0.5) == pytest.approx(
            document["latencyPercentiles"]["p50"], abs=6e-5
        )


def test_bins_that_oha_does_not_print_are_not_used():
    text = printed("ms", 1e-3).replace("6.000 ms [1]", "6.400 ms [1]")
    result = oha.read_text(text, "x.txt")
    assert any("only percentiles" in note for note in result.notes)
    assert result.histogram.n == 11


def test_equal_latencies():
    document = by_hand(
        summary={**by_hand()["summary"], "slowest": 0.004, "fastest": 0.004, "average": 0.004},
        responseTimeHistogram={"0.004": 0},
        latencyPercentiles=dict.fromkeys(by_hand()["latencyPercentiles"], 0.004),
    )
    histogram = oha.read_document(document, "x.json").histogram
    assert (histogram.n, histogram.min_s, histogram.max_s) == (11, 0.004, 0.004)
    assert histogram.quantile(0.5) == pytest.approx(0.004)


def test_between_percentiles_only_the_count_is_known():
    # 1000 responses; half of them within 1 ms, one bin for the rest: p75 is known, p60 lies anywhere below it.
    counts = {"0.001": 1, **{str(k / 1000): 0 for k in range(2, 11)}, "0.011": 999}
    document = by_hand(
        summary={**by_hand()["summary"], "requestsPerSec": 500.0},
        responseTimeHistogram=counts,
        latencyPercentiles={
            "p10": 0.0101, "p25": 0.0102, "p50": 0.0103, "p75": 0.0108, "p90": 0.0109, "p95": 0.011, "p99": 0.011,
        },
        statusCodeDistribution={"200": 1000},
    )  # fmt: skip
    histogram = oha.read_document(document, "x.json").histogram
    assert histogram.quantile_bounds(0.6) == pytest.approx((0.0103, 0.0108))
    assert histogram.quantile_bounds(0.5) == pytest.approx((0.0103, 0.0103))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"statusCodeDistribution": {"200": 10}}, "make 11 requests, its status codes and errors 10"),
        ({"responseTimeHistogram": {"0.001": 11}}, "1 bins with 11 responses instead of 11 with 11"),
        ({"latencyPercentiles": {"p10": 0.002, "p25": None}}, "25th percentile is nan"),
        ({"latencyPercentiles": {"p10": 0.002, "p25": 0.001}}, "25th percentile is below the one before"),
        ({"summary": {"total": 2.0}}, "'slowest' is missing"),
        ({"summary": {**by_hand()["summary"], "total": 0.0}}, "5.5 RPS for 0 s are no load"),
        ({"summary": {**by_hand()["summary"], "fastest": 0.1}}, "run from 0.1 to 0.011 s"),
        ({"summary": None}, "not a whole result"),
        ({"responseTimeHistogram": {"x": 1}}, "x"),
    ],
)
def test_results_that_contradict_themselves_are_refused(change, words):
    with pytest.raises(ResultError, match=words) as caught:
        oha.read_document(by_hand(**change), "x.json")
    assert str(caught.value).startswith("x.json is not a whole result of oha's")
    assert "\n" not in str(caught.value)


def test_two_results_in_one_file_are_refused():
    with pytest.raises(ResultError, match="more than one result"):
        oha.read_text(printed() + printed(), "x.txt")


@pytest.mark.parametrize(
    "name", ["oha-1.4.1.txt", "oha-1.4.1-colour.txt", "oha-1.4.1.json", "oha-1.16.0.txt"]
)
def test_a_truncated_file_is_refused_or_loses_nothing(name):
    whole = (GOLDEN / name).read_text()
    expected = oha.read_result(whole, name)
    n_read = 0
    for end in range(0, len(whole), 7):
        try:
            result = oha.read_result(whole[:end], name)
        except ResultError as error:
            assert name in str(error)
            continue
        n_read += 1
        assert (result.n, result.return_codes) == (expected.n, expected.return_codes)
        assert result.percentiles == expected.percentiles
    assert n_read < 20, "only what follows the last count may be lost"
