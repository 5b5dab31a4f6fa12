"""The data that are committed: whole, registered, and described."""

import csv
import re

import numpy as np
import pytest
from support import make_run, make_study

from meshperf import campaign, runs
from meshperf.design import RunKey
from meshperf.paths import repository_root

DATA = repository_root() / "data"
CAMPAIGNS = [name for name in campaign.known() if not name.endswith("-local")]


@pytest.fixture(scope="module")
def described():
    """Every word in code font of the data card."""
    return set(re.findall(r"`([^`]+)`", (DATA / "README.md").read_text()))


def registry():
    with (DATA / "campaigns.csv").open(newline="") as handle:
        return list(csv.DictReader(handle))


def test_the_registry_has_the_columns_that_are_written():
    assert (DATA / "campaigns.csv").read_text().splitlines()[0] == ",".join(campaign.REGISTRY_COLUMNS)


def test_the_registry_lists_what_is_there():
    unsealed = [name for name in CAMPAIGNS if not runs.is_sealed(campaign.directory(name))]
    assert sorted(row["campaign"] for row in registry()) == sorted(set(CAMPAIGNS) - set(unsealed))


def test_nothing_synthetic_is_registered():
    assert [row["campaign"] for row in registry() if row["synthetic"] != "false"] == []


@pytest.mark.parametrize("name", [row["campaign"] for row in registry()])
def test_a_committed_campaign_is_as_it_was_measured(name):
    assert campaign.verify(campaign.directory(name)) == []


@pytest.mark.parametrize(
    "columns", [campaign.REGISTRY_COLUMNS, runs.SLICES_COLUMNS, runs.RESOURCES_COLUMNS], ids=len
)
def test_the_data_card_explains_every_column(described, columns):
    assert set(columns) - described == set()


def test_the_data_card_explains_every_part_of_a_record(described):
    key = RunKey("istio", "mtls", 100, 1, 1)
    _, record = make_run(make_study(), key, median_s=0.001, rng=np.random.default_rng(1))
    assert set(record) - described == set()


def test_the_data_card_explains_every_file(described):
    files = {
        runs.RECORD,
        runs.RESULT,
        runs.SLICES,
        runs.RESOURCES,
        runs.CHECKSUMS,
        campaign.DESIGN,
        campaign.CRATE,
    }
    assert files - described == set()
