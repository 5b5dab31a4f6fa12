"""Whatever a file holds, it is imported whole or refused in a sentence, and nothing is left half-written."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshperf import runs, storage
from meshperf.importing import Claim, Rules, import_files
from meshperf.loadgen import recognise
from meshperf.loadgen.result import ResultError

FOREIGN = Path(__file__).parents[1] / "golden" / "foreign"
FILES = sorted(FOREIGN.glob("*.*"))
RULES = Rules(given=Claim("traefik", "plain"))


def check(content, name):
    """Import one file; return whether it was."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, name)
        source.write_bytes(content)
        campaign_dir = Path(place, "raw", "foreign-local")
        outcome = import_files([source], campaign_dir, RULES)
        assert len(outcome.imported) + len(outcome.refused) == 1
        if outcome.refused:
            reason = outcome.refused[0][1]
            assert reason
            assert "\n" not in reason
            assert not campaign_dir.exists()
            return False
        (key,) = runs.iter_keys(campaign_dir)
        run = runs.run_dir(campaign_dir, key)
        assert recognise.read_run(run).n == runs.read_record(run)["latency"]["n_requests"]
        assert not [path for path in Path(place).rglob("*") if path.name.startswith(storage.HIDDEN)]
        return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_truncated_file_is_refused_at_whatever_byte(path):
    """JSON lacks its last brace wherever it is cut; text may lack what follows its last count."""
    whole = path.read_bytes()
    step = max(1, len(whole) // 150)
    for end in range(0, len(whole.rstrip()), step):
        try:
            found = recognise.recognise(whole[:end], "x")
        except ResultError as error:
            assert str(error).startswith("x ")
            assert "\n" not in str(error)
        else:
            assert path.suffix == ".txt"
            assert found[0].result.n == recognise.recognise(whole, "x")[0].result.n


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FILES), st.floats(0, 1))
def test_importing_a_truncated_file_leaves_nothing_behind(path, share):
    whole = path.read_bytes()
    assert (
        not (check(whole[: int(share * len(whole.rstrip()))], path.name) and path.suffix == ".json")
        or share == 1
    )


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FILES), st.data())
def test_damaged_bytes_never_break_the_import(path, data):
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(content), path.name)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-10, 10**20), st.floats(allow_nan=False), st.text(max_size=5),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([path for path in FILES if path.suffix == ".json"]), st.data())
def test_any_value_in_any_field_is_read_or_refused(path, data):
    document = json.loads(path.read_text())
    place = document
    while True:
        if isinstance(place, list):
            key = data.draw(st.integers(0, len(place) - 1)) if place else None
        else:
            key = data.draw(st.sampled_from(sorted(place))) if place else None
        if key is None or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    if key is not None:
        place[key] = data.draw(VALUES)
    check(json.dumps(document).encode(), path.name)
