"""RO-Crate 1.1 metadata of a campaign: what each of its files is, when and how it was made.

The format is that of https://w3id.org/ro/crate/1.1. The same campaign always gives the same text: no time of
writing, no random names.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

from meshperf import runs
from meshperf.loadgen import recognise

if TYPE_CHECKING:
    from meshperf.study import Imported

LICENCE = "https://creativecommons.org/licenses/by/4.0/"
_AUTHORS = "#authors"
_SOFTWARE = "#meshperf"

#: File name -> media type and description.
_FILES = {
    "design.json": ("application/json", "The study, its hashes, its random order and the testbed"),
    runs.RECORD: ("application/json", "What was asked, proven and measured in this run"),
    runs.RESULT: ("application/json", "The load generator's output, byte for byte"),
    recognise.OHA_JSON: ("application/json", "The load generator's output, byte for byte"),
    recognise.OHA_TEXT: ("text/plain", "The load generator's output, byte for byte"),
    recognise.ORIGINAL: ("application/json", "The imported file that the run's result was cut out of"),
    runs.SLICES: ("application/gzip", "Latency histograms of the slices of the run: CSV"),
    runs.RESOURCES: ("application/gzip", "CPU time and memory of each container during the run: CSV"),
    runs.CHECKSUMS: ("text/plain", "SHA-256 of every other file"),
}
_ATTEMPT = ("application/json", "An attempt that the infrastructure broke, and why")


def metadata(
    campaign_dir: Path,
    files: Iterable[str],
    *,
    title: str,
    started_utc: str,
    ended_utc: str,
    published_utc: str,
    synthetic: bool,
    imported: "Imported | None",
    code: dict[str, Any],
) -> dict[str, Any]:
    """Return the content of ``ro-crate-metadata.json``.

    Parameters
    ----------
    campaign_dir : Path
        The campaign.
    files : iterable of str
        Its files, relative to it, without ``ro-crate-metadata.json``; one entity each.
    title : str
        The study's.
    started_utc, ended_utc : str
        First and last moment of measurement, ISO 8601; empty where imported files do not say.
    published_utc : str
        Date of publication.
    synthetic : bool
        Whether the latencies are simulated.
    imported : Imported or None
        Where the runs come from, if others measured them.
    code : dict
        ``version`` and ``commit`` of what measured.
    """
    crate = ROCrate(version="1.1")
    crate.name = f"{title} (campaign {campaign_dir.name})"
    crate.description = _description(synthetic, imported)
    crate.datePublished = published_utc
    authors = _entity(crate, _AUTHORS, {"@type": "Organization", "name": "The meshperf authors"})
    if imported is None:
        crate.license = _entity(
            crate,
            LICENCE,
            {
                "@type": "CreativeWork",
                "name": "Creative Commons Attribution 4.0 International",
                "identifier": "CC-BY-4.0",
            },
        )
        crate.root_dataset["author"] = authors
    else:
        crate.license = imported.licence or "not known: the files are their authors'"
        if imported.source:
            crate.root_dataset["isBasedOn"] = imported.source
    crate.publisher = authors
    crate.root_dataset["identifier"] = campaign_dir.name
    if started_utc:
        crate.root_dataset["temporalCoverage"] = f"{started_utc}/{ended_utc}"
    crate.keywords = ["service mesh", "latency", "Kubernetes", "benchmark"] + (
        ["imported"] if imported else []
    )
    software = _entity(
        crate,
        _SOFTWARE,
        {
            "@type": "SoftwareApplication",
            "name": "meshperf",
            "version": str(code.get("version")),
            "identifier": str(code.get("commit")),
        },
    )
    for name in files:
        media_type, description = _FILES.get(Path(name).name, _ATTEMPT)
        crate.add_file(
            str(campaign_dir / name),
            dest_path=name,
            properties={"name": name, "description": description, "encodingFormat": media_type},
        )
    action = _entity(
        crate,
        "#measurement" if imported is None else "#import",
        {
            "@type": "CreateAction",
            **(
                {"name": "Measurement of the campaign", "startTime": started_utc, "endTime": ended_utc}
                if imported is None
                else {"name": "Import of results that others measured", "endTime": published_utc}
            ),
        },
    )
    action["instrument"] = software
    action["result"] = crate.root_dataset
    crate.root_dataset["mentions"] = action
    return crate.metadata.generate()


def _description(synthetic: bool, imported: "Imported | None") -> str:
    if imported is not None:
        return (
            "IMPORTED results, measured by others and not by meshperf: the untouched file of every run, what it says "
            "of the run in the fields of our own, and null for what it does not say."
        )
    return ("SYNTHETIC data for tests, measured on nothing. " if synthetic else "") + (
        "Latency histograms, CPU time and memory of every run of one study of service meshes, with the "
        "order of measurement, the checks that each run passed and the attempts that were broken."
    )


def _entity(crate: ROCrate, identifier: str, properties: dict[str, Any]) -> ContextEntity:
    return crate.add(ContextEntity(crate, identifier, properties=properties))
