"""Results of fortio since 1.1, of Nighthawk and of Meshery: what each writes, and in what it differs.

``tests/golden/foreign`` was recorded with fortio of the version in each name ("dev" inside: built from its source)
against fortio's servers on the loopback interface; the percentiles in those files are fortio's.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from meshperf.histogram import Histogram
from meshperf.loadgen import recognise
from meshperf.loadgen.fortio import FortioError, percentile, read_result, results
from meshperf.loadgen.fortio_buckets import grid_edges, infer_resolution
from meshperf.loadgen.result import ResultError

GOLDEN = Path(__file__).parents[1] / "golden"
FOREIGN = GOLDEN / "foreign"
RECORDED = sorted(FOREIGN.glob("*-[0-9]*.json"))
FORTIO = [path for path in RECORDED if not path.name.startswith("oha")]


def document(name):
    return json.loads((FOREIGN / name).read_text())


def reread(content, name="x.json"):
    return read_result(json.dumps(content).encode(), name=name)


@pytest.mark.parametrize("path", FORTIO, ids=lambda path: path.stem)
def test_percentiles_of_every_version_are_reproduced_to_the_last_digit(path):
    result = read_result(path)
    assert len(result.percentiles) == 5
    assert {p: percentile(result, p) for p in result.percentiles} == result.percentiles
    assert (result.generator, result.contradictions) == ("fortio", ())


@pytest.mark.parametrize("path", FORTIO, ids=lambda path: path.stem)
def test_the_grid_is_found_where_the_file_does_not_name_it(path):
    """All were recorded with -r 0.0001, which is written since 1.38, and for HTTP only."""
    raw = json.loads(path.read_text())
    result = read_result(path)
    assert np.array_equal(result.histogram.edges_s, grid_edges(1e-4))
    assert result.resolution_s == raw.get("Resolution")
    raw.pop("Resolution", None)
    assert np.array_equal(reread(raw).histogram.counts, result.histogram.counts)


def test_runs_of_different_versions_merge():
    parts = [
        read_result(FOREIGN / f"http-{version}.json").histogram for version in ("1.1.0", "1.28.0", "1.40.0")
    ]
    assert Histogram.merge(parts).n == sum(part.n for part in parts)


def test_no_grid_is_made_up_from_too_few_buckets():
    raw = document("http-1.1.0.json")
    data = raw["DurationHistogram"]
    first = data["Data"][0]
    data |= {
        "Count": 2,
        "Data": [first | {"Count": 1, "Percent": 50.0}, first | {"Start": first["End"], "Count": 1}],
    }
    data["Data"][1] |= {"End": first["End"] * 1.5, "Percent": 100.0}
    data |= {"Max": data["Data"][1]["End"], "Percentiles": None}
    raw["RetCodes"] = {"200": 2}
    result = reread(raw)
    assert infer_resolution(result.bins) is None
    assert result.histogram.edges_s.tolist() == [first["Start"], first["End"], first["End"] * 1.5]


def test_errors_of_old_versions_are_counted_by_their_codes():
    raw = document("errors-1.1.0.json")
    assert "ErrorsDurationHistogram" not in raw
    result = read_result(FOREIGN / "errors-1.1.0.json")
    failed = raw["RetCodes"]["503"]
    assert result.n_errors == result.n_errors_in_histogram == failed > 0
    assert result.failures == {"503": failed}
    # Their latencies cannot be told from the others.
    assert result.histogram.n == result.n == raw["DurationHistogram"]["Count"]
    assert f"{failed} failed requests" in result.notes[0]


def test_errors_of_new_versions_are_taken_out():
    raw = document("errors-1.40.0.json")
    result = read_result(FOREIGN / "errors-1.40.0.json")
    assert result.n_errors == raw["RetCodes"]["503"] == result.n - result.histogram.n > 0
    assert (result.n_errors_in_histogram, result.notes) == (0, ())


@pytest.mark.parametrize(
    ("name", "codes", "run_type"),
    [
        ("grpc-1.1.0", {"SERVING": 100}, "GRPC Health"),  # 1.1 writes the number 1
        ("grpc-ping-1.68.1", {"SERVING": 100}, "GRPC Ping"),
        ("tcp-1.11.0", {"OK": 200}, "TCP"),
        ("udp-1.28.0", {"OK": 50}, "UDP"),
    ],
)
def test_other_protocols(name, codes, run_type):
    result = read_result(FOREIGN / f"{name}.json")
    assert (result.return_codes, result.run_type, result.n_errors) == (codes, run_type, 0)
    assert result.failures == {}
    assert "127.0.0.1" in result.url


def test_a_grpc_server_that_does_not_serve_failed():
    raw = document("grpc-1.1.0.json")
    raw["RetCodes"] = {"1": 98, "2": 1, "-1": 1}
    result = reread(raw)
    assert result.n_errors == 2
    assert result.failures == {"NOT_SERVING": 1, "-1": 1}


def test_what_old_versions_do_not_say_is_unknown():
    result = read_result(FOREIGN / "http-1.1.0.json")
    assert (result.uniform, result.catch_up, result.resolution_s, result.offset_s) == (None,) * 4
    assert (result.target_rps_requested, result.rate_limited, result.connections) == (100.0, True, 4)


def test_no_limit_and_a_number_of_calls():
    result = read_result(FOREIGN / "max-1.11.0.json")
    assert (result.target_rps_requested, result.rate_limited) == (None, False)
    assert np.isnan(read_result(FOREIGN / "tcp-1.11.0.json").duration_requested_s)


def test_a_run_that_was_broken_off_shows_in_its_durations():
    result = read_result(FOREIGN / "interrupted-1.68.1.json")
    assert result.duration_requested_s == 60
    assert result.duration_s < 2
    raw = document("tcp-1.11.0.json")
    raw["RequestedDuration"] = "exactly 400 calls, interrupted after 200"
    assert "not finished" in reread(raw).notes[0]


@pytest.mark.parametrize("started", [None, "", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00"])
def test_no_time_of_a_known_zone_is_no_time(started):
    raw = document("http-1.1.0.json")
    raw["StartTime"] = started
    assert reread(raw).started is None


# ---- Nighthawk (api/client/transform/fortio.proto, output_formatter_impl.cc)


def nighthawk(**changes):
    """A result by hand: 100 requests, percent levels of its own, counts as strings."""
    data = {
        "Count": "100",
        "Data": [
            {"Start": 0.001, "End": 0.001, "Percent": 0, "Count": "1"},
            {"Start": 0.001, "End": 0.002, "Percent": 50, "Count": "52"},
            {"Start": 0.002, "End": 0.009, "Percent": 100, "Count": "47"},
        ],
        "Min": 0.001,
        "Max": 0.009,
        "Sum": 0.3,
    }
    return {
        "Labels": "",
        "RequestedQPS": 10,
        "RequestedDuration": "10s",
        "ActualQPS": 10.0,
        "ActualDuration": 10000000000,
        "NumThreads": 8,
        "DurationHistogram": data,
        "RetCodes": {"200": "100"},
        "Version": "0.3.0",
        "RunType": "HTTP",
        **changes,
    }


def test_nighthawk_counts_its_successes_only():
    result = reread(nighthawk())
    assert (result.generator, result.n, result.n_errors, result.version) == ("nighthawk", 100, 0, "0.3.0")
    failed = reread(nighthawk(RetCodes={"200": "93"}))
    assert (failed.n_errors, failed.n_errors_in_histogram, failed.contradictions) == (7, 7, ())


def test_the_pedantic_format_is_the_same():
    raw = nighthawk(RequestedQPS="10", RetCodes={"200": 100})
    raw["DurationHistogram"]["Count"] = 100
    for bucket in raw["DurationHistogram"]["Data"]:
        bucket["Count"] = int(bucket["Count"])
    a, b = reread(raw), reread(nighthawk())
    assert np.array_equal(a.histogram.counts, b.histogram.counts)
    assert (a.n, a.target_rps_requested, a.generator) == (b.n, b.target_rps_requested, b.generator)


def test_early_nighthawk_left_out_a_bucket_and_wrote_seconds():
    raw = nighthawk(ActualDuration=10)
    del raw["DurationHistogram"]["Data"][0]
    del raw["Version"]
    result = reread(raw)
    assert result.duration_s == 10
    assert "in seconds" in result.notes[0]
    assert result.histogram.counts.tolist() == [53, 47]
    assert result.histogram.n == result.n == 100


def test_contradictions_are_named():
    # 100 requests in 10 s, and 1 RPS written; 120 successes of 100 requests.
    result = reread(nighthawk(ActualQPS=1, RetCodes={"200": "120"}))
    assert result.contradictions == (
        "100 requests in 10 s are 10 RPS, not 1",
        "it counts 100 requests and 120 return codes",
    )


# ---- recognising


def test_meshery_wraps_results_in_lists():
    first, second = document("http-1.1.0.json"), document("http-1.28.0.json")
    wrapped = [{"name": "No mesh", "mesh": None, "runner_results": [first | {"load-generator": "fortio"}]}]
    wrapped.append({"name": "Istio", "runner_results": [second]})
    content = json.dumps(wrapped).encode()
    found = recognise.recognise(content, "x.json")
    assert [item.result.n for item in found] == [first["DurationHistogram"]["Count"], 84]
    assert not any(item.is_whole_file for item in found)
    # What is cut out is a result of its own.
    assert [read_result(item.content).n for item in found] == [item.result.n for item in found]
    with pytest.raises(FortioError, match=r"x\.json holds 2 results"):
        read_result(content, name="x.json")
    assert [result.n for result in results(wrapped, "x.json")] == [item.result.n for item in found]


def test_one_of_several_that_is_not_whole_is_named():
    broken = document("http-1.28.0.json")
    del broken["ActualQPS"]
    with pytest.raises(FortioError, match=r"x\.json#2 is not a whole fortio result: 'ActualQPS' is missing"):
        results([document("http-1.1.0.json"), broken], "x.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ((FOREIGN / "printed-1.68.1.txt").read_bytes(), "what fortio prints.*-json FILE"),
        (
            b'{"results": [{"name": "global", "statistics": []}]}',
            "Nighthawk's own format.*output-format fortio",
        ),
        (b'{"metrics": {"http_req_duration": {}}}', "no result of a known load generator"),
        (b"Running 10s test @ http://x/\n  2 threads", "no result of a known load generator"),
        (b"\n ", "is empty"),
        (b"\x89PNG\r\n\x1a\n\x00", "is not text"),
        (b'{"a": ' * 100_000, "nested too deeply|not valid JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"Error":"Aborting because of error","Exception":{}}', "error report.*Aborting"),
        (
            b'{"DurationHistogram": {"Count": 1e999, "Data": []}, "RequestedQPS": "1"}',
            "not a whole fortio result",
        ),
    ],
)
def test_other_files_are_refused_with_a_remedy(content, words):
    with pytest.raises(ResultError, match=words) as caught:
        recognise.recognise(content, "x")
    assert str(caught.value).startswith("x ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings_of_windows(encoding):
    text = (FOREIGN / "http-1.1.0.json").read_text()
    assert recognise.recognise(text.encode(encoding), "x.json")[0].result.n == 100
