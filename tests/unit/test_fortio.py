"""Fortio's results: percentiles to the last digit, damage refused in a sentence, and its command line.

``tests/golden/fortio`` was recorded with fortio 1.68.1 against its own echo server on the loopback interface;
the percentiles in those files are fortio's.
"""

import itertools
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from meshperf.histogram import Histogram, rebin_latencies
from meshperf.loadgen import fortio
from meshperf.loadgen.access_log import read_access_log
from meshperf.loadgen.fortio import FortioError, percentile, read_result
from meshperf.loadgen.fortio_buckets import grid_edges

GOLDEN = Path(__file__).parents[1] / "golden" / "fortio"
RECORDED = sorted(GOLDEN.glob("*.json"))
#: A directory with results of other people (fortio of any version, Nighthawk), searched for *.json.
EXTERNAL = os.environ.get("MESHPERF_EXTERNAL")
NIGHTHAWK = {
    "RequestedQPS": 1000,
    "RequestedDuration": "60s",
    "ActualQPS": 999.5,
    "ActualDuration": 60000028605,
    "NumThreads": 8,
    "RetCodes": {"200": "100"},
    "DurationHistogram": {
        "Count": "100",
        "Min": 0.001,
        "Max": 0.009,
        "Sum": 0.3,
        "Data": [
            {"Start": 0.001, "End": 0.001, "Percent": 0, "Count": "1"},
            {"Start": 0.001, "End": 0.002, "Percent": 50, "Count": "52"},
            {"Start": 0.002, "End": 0.003, "Percent": 98.75, "Count": "46"},
            {"Start": 0.003, "End": 0.003, "Percent": 99.0625, "Count": "0"},
            {"Start": 0.003, "End": 0.009, "Percent": 100, "Count": "1"},
        ],
        "Percentiles": [],
    },
}


def document(name="plain"):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def reread(content):
    return read_result(json.dumps(content).encode(), name="x.json")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_percentiles_are_reproduced_to_the_last_digit(path):
    result = read_result(path)
    assert len(result.percentiles) == 5
    assert {p: percentile(result, p) for p in result.percentiles} == result.percentiles
    assert result.dialect == "fortio"
    assert percentile(result, 100) == result.max_s


@pytest.mark.skipif(EXTERNAL is None, reason="MESHPERF_EXTERNAL names no directory of foreign results")
def test_foreign_percentiles_are_reproduced_to_the_last_digit():
    checked = 0
    for path in sorted(Path(EXTERNAL).rglob("*.json")):
        result = read_result(path)
        for p, value in result.percentiles.items():
            assert percentile(result, p) == value, f"p{p:g} of {path}"
            checked += 1
    assert checked, "no file has percentiles"


def test_fields_are_read():
    result = read_result(GOLDEN / "plain.json")
    raw = document()
    assert result.target_rps_requested == 400
    assert result.achieved_rps == raw["ActualQPS"]
    assert result.duration_requested_s == 2
    assert result.duration_s == pytest.approx(raw["ActualDuration"] / 1e9)
    assert (result.connections, result.sockets, result.version) == (8, 8, "1.68.1")
    assert result.return_codes == {"200": 800}
    assert (result.n, result.n_errors) == (800, 0)
    assert (result.resolution_s, result.offset_s, result.uniform, result.catch_up) == (5e-5, 0, True, False)
    assert result.started.year == 2026
    assert read_result(GOLDEN / "offset.json").offset_s == pytest.approx(1e-4)
    assert read_result(GOLDEN / "max.json").target_rps_requested is None
    assert np.isnan(read_result(GOLDEN / "max.json").duration_requested_s)


def test_the_histogram_is_on_the_whole_grid_so_that_runs_merge():
    first, second = (read_result(GOLDEN / f"{name}.json") for name in ("plain", "stalled"))
    edges = grid_edges(5e-5)
    assert edges[:4].tolist() == pytest.approx([0, 5e-5, 1e-4, 1.5e-4])
    assert edges[-2:].tolist() == [5.0, np.inf]
    assert np.array_equal(first.histogram.edges_s, edges)
    merged = Histogram.merge([first.histogram, second.histogram])
    assert merged.n == first.n + second.n
    assert merged.max_s == second.max_s
    # 1, 2, ... in units of the resolution: the first occupied bin of "plain" is (0, 1], whatever its smallest
    # value.
    assert first.histogram.counts[0] == document()["DurationHistogram"]["Data"][0]["Count"]


def test_a_run_of_one_bucket_lands_in_the_right_bin():
    data = {"Start": 0.00022, "End": 0.00024, "Percent": 100, "Count": 5}
    raw = document()
    raw["DurationHistogram"] = {"Count": 5, "Min": 0.00022, "Max": 0.00024, "Sum": 0.00115, "Data": [data]}
    histogram = reread(raw).histogram
    occupied = np.flatnonzero(histogram.counts)
    assert occupied.tolist() == [4]
    assert histogram.edges_s[4:6].tolist() == pytest.approx([2e-4, 2.5e-4])


def test_errors_are_taken_out_of_the_latencies():
    result = read_result(GOLDEN / "errors.json")
    raw = document("errors")
    assert result.return_codes["503"] == result.n_errors == raw["ErrorsDurationHistogram"]["Count"] > 0
    assert result.histogram.n == result.n - result.n_errors == result.return_codes["200"]
    # By hand: bucket by bucket, on the grid of 0.1 ms.
    edges = grid_edges(1e-4)
    expected = np.zeros(edges.size - 1)
    for sign, key in ((1, "DurationHistogram"), (-1, "ErrorsDurationHistogram")):
        for bucket in raw[key]["Data"]:
            middle = (bucket["Start"] + bucket["End"]) / 2
            expected[np.searchsorted(edges, middle) - 1] += sign * bucket["Count"]
    assert np.array_equal(result.histogram.counts, expected)
    successes = raw["DurationHistogram"]["Sum"] - raw["ErrorsDurationHistogram"]["Sum"]
    assert result.histogram.sum_s == pytest.approx(successes)


def test_a_run_of_errors_only_has_no_latencies():
    raw = document()
    raw["ErrorsDurationHistogram"] = raw["DurationHistogram"]
    assert reread(raw).histogram.n == 0


def test_nighthawks_dialect():
    result = reread(NIGHTHAWK)
    assert (result.dialect, result.n, result.target_rps_requested) == ("nighthawk", 100, 1000)
    assert result.sockets is None
    assert result.return_codes == {"200": 100}
    # Its own rule: the end of the first bucket whose level reaches p.
    assert [percentile(result, p) for p in (50, 75, 99, 100)] == [0.002, 0.003, 0.003, 0.009]
    # Fortio's rule on the same bins, by hand: 98.75 -> 99.0625 is a bucket without width.
    assert percentile(result, 99, rule="fortio") == 0.003
    assert percentile(result, 75, rule="fortio") == pytest.approx(0.002 + 25 / 48.75 * 0.001)
    # The one at the minimum counts in the bin that starts there.
    assert result.histogram.counts.tolist() == [53, 46, 1]
    assert result.histogram.edges_s.tolist() == [0.001, 0.002, 0.003, 0.009]


def test_strings_for_counts_alone_do_not_make_a_dialect():
    raw = document()
    raw["DurationHistogram"]["Count"] = str(raw["DurationHistogram"]["Count"])
    for bucket in raw["DurationHistogram"]["Data"]:
        bucket["Count"] = str(bucket["Count"])
    raw["RequestedQPS"] = 400
    result = reread(raw)
    assert result.dialect == "fortio"
    assert {p: percentile(result, p) for p in result.percentiles} == result.percentiles


@pytest.mark.parametrize("missing", ["null", "absent"])
def test_stored_percentiles_may_be_missing(missing):
    raw = document()
    stored = {p["Percentile"]: p["Value"] for p in raw["DurationHistogram"]["Percentiles"]}
    raw["DurationHistogram"]["Percentiles"] = None
    if missing == "absent":
        del raw["DurationHistogram"]["Percentiles"]
    result = reread(raw)
    assert result.percentiles == {}
    assert {p: percentile(result, p) for p in stored} == stored


def test_a_wrapped_result_is_found():
    assert reread({"results": {"runner": document()}}).n == 800


def test_a_run_without_requests():
    raw = document()
    raw["DurationHistogram"] = {"Count": 0, "Min": 0, "Max": 0, "Sum": 0, "Avg": 0, "StdDev": 0, "Data": None}
    result = reread(raw)
    assert result.n == result.histogram.n == 0
    assert np.isnan(result.max_s)
    with pytest.raises(FortioError, match="without requests"):
        percentile(result, 50)


def whole():
    return (GOLDEN / "plain.json").read_bytes()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (whole()[:1000], "x.json is not valid JSON .* truncated or damaged"),
        (b"", "is empty"),
        (whole() + whole(), "more than one JSON document"),
        (b'{"Error":"Aborting because of error","Exception":{}}', "error report.*Aborting because of error"),
        (b"[1, 2]", "not an object"),
        (b'{"hello": 1}', "no DurationHistogram"),
        (b"\xff\xfe\x00", "not text"),
        (whole().replace(b'"ActualQPS": ', b'"ActualQPS": NaN, "x": '), "NaN is not a number"),
    ],
)
def test_damage_is_one_sentence_with_the_name(content, words):
    with pytest.raises(FortioError, match=words) as caught:
        read_result(content, name="x.json")
    assert str(caught.value).startswith("x.json ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FortioError, match=r"nowhere\.json cannot be read"):
        read_result(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["DurationHistogram"]["Data"].pop(1), "add up to"),
        (lambda raw: raw["DurationHistogram"].update(Data=None), "no histogram"),
        (lambda raw: raw["DurationHistogram"]["Data"][0].update(Count=-1), "negative"),
        (lambda raw: raw["DurationHistogram"]["Data"].reverse(), "not in order"),
        (lambda raw: raw.pop("ActualQPS"), "'ActualQPS' is missing"),
        (lambda raw: raw.update(RequestedQPS="many"), "many"),
    ],
)
def test_results_that_contradict_themselves_are_refused(change, words):
    raw = document()
    change(raw)
    with pytest.raises(FortioError, match=words):
        reread(raw)


def test_the_access_log_agrees_with_the_result():
    log = read_access_log((GOLDEN / "plain.access.jsonl").read_bytes())
    result = read_result(GOLDEN / "plain.json")
    assert len(log.latency_s) == result.n == 800
    assert log.ok.all()
    assert set(log.status) == {200}
    assert log.start_offset_s.min() == 0
    assert 1.9 < log.start_offset_s.max() < 2.02
    # Whole microseconds in the log.
    assert log.latency_s.max() == pytest.approx(result.max_s, abs=1e-6)
    assert log.latency_s.sum() == pytest.approx(result.sum_s, abs=800e-6)
    assert abs(log.first_unix_s - result.started.timestamp()) < 0.5
    median = rebin_latencies(log.latency_s).quantile(0.5)
    low, high = result.histogram.quantile_bounds(0.5)
    assert low - 1e-6 <= median <= high + 1e-6


LINE = b'{"latency":0.000123,"timestamp":1700000000000000000,"thread":0,"iter":0,"ok":true,"details":"200"}\n'


def test_errors_in_the_access_log():
    failed = LINE.replace(b"true", b"false").replace(b'"200"', b'"503"')
    broken = LINE.replace(b"true", b"false").replace(b'"200"', rb'"dial tcp \"x\": refused"')
    log = read_access_log(LINE + failed + broken)
    assert log.status.tolist() == [200, 503, -1]
    assert log.ok.tolist() == [True, False, False]
    assert log.latency_s.tolist() == [0.000123] * 3


@pytest.mark.parametrize("tail", [LINE[:-1], LINE[:40], b"hello\n", b"\n"])
def test_a_truncated_access_log_is_refused(tail):
    with pytest.raises(FortioError, match=r"truncated|damaged"):
        read_access_log(LINE * 3 + tail)


def test_an_empty_access_log_is_empty():
    assert read_access_log(b"").latency_s.size == 0


def load(**changes):
    return SimpleNamespace(
        **{"connections": 16, "resolution_s": 5e-5, "payload_bytes": 0, "timeout_s": 3, **changes}
    )


def test_the_command_line():
    argv = fortio.build_argv(load(), target_rps=400, url="http://echo/", duration_s=0.5)
    assert argv[:2] == ["fortio", "load"]
    assert argv[-3:] == ["-json", "-", "http://echo/"]
    assert {"-uniform", "-nocatchup", "-quiet"} <= set(argv)
    options = dict(itertools.pairwise(argv))
    assert {name: options[name] for name in ("-qps", "-c", "-t", "-r", "-timeout")} == {
        "-qps": "400",
        "-c": "16",
        "-t": "0.5s",
        "-r": "0.00005",
        "-timeout": "3s",
    }
    assert "-payload-size" not in argv
    assert "-access-log-file" not in argv
    assert "-allow-initial-errors" not in argv


def test_optional_parts_of_the_command_line():
    argv = fortio.build_argv(
        load(payload_bytes=1024),
        target_rps=12.5,
        url="u",
        duration_s=100000,
        access_log_path="/tmp/log",
        labels="a b",
    )
    options = dict(itertools.pairwise(argv))
    assert options["-payload-size"] == "1024"
    assert options["-access-log-file"] == "/tmp/log"
    assert options["-access-log-format"] == "json"
    assert options["-labels"] == "a b"
    assert (options["-qps"], options["-t"]) == ("12.5", "100000s")


def test_headers_are_given_to_every_request():
    given = {"Authorization": "Bearer x", "A": "b"}
    argv = fortio.build_argv(load(), target_rps=1, url="u", duration_s=1, headers=given)
    assert argv[-7:] == ["-H", "Authorization: Bearer x", "-H", "A: b", "-json", "-", "u"]
    single = fortio.build_single_argv("u", {"A": "b"}, timeout_s=3)
    assert single[-5:] == ["-H", "A: b", "-json", "-", "u"]
    options = dict(itertools.pairwise(single))
    assert (options["-n"], options["-c"], options["-timeout"]) == ("1", "1", "3s")
    assert "-allow-initial-errors" in single


@pytest.mark.parametrize(
    ("rate", "seconds", "connections", "planned"),
    [(400, 2, 8, 800), (100, 1, 16, 96), (2, 1, 1, 2), (1, 1, 4, 2), (10, 1, 16, 10), (333, 0.5, 4, 164)],
)
def test_planned_requests_follow_fortios_schedule(rate, seconds, connections, planned):
    assert fortio.planned_requests(rate, seconds, connections) == planned


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("1m30s", 90), ("1h0m0.5s", 3600.5), ("250ms", 0.25), ("exactly 20 calls", None), ("", None)],
)
def test_go_durations(text, seconds):
    parsed = fortio._go_duration_s(text)
    assert np.isnan(parsed) if seconds is None else parsed == seconds


@pytest.mark.parametrize("p", [0, -1, 101])
def test_percentiles_are_percentages(p):
    with pytest.raises(FortioError, match="percentile"):
        percentile(read_result(GOLDEN / "plain.json"), p)
