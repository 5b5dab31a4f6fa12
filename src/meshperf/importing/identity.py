"""Which run a foreign file is: from a mapping, from its name, or from what holds for all files given.

A file says what it measured, and rarely of what: the mesh and its configuration must be stated by whoever imports it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePath

from meshperf.design import BASELINE
from meshperf.errors import MeshperfError
from meshperf.runs import ATTEMPTS

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
#: Other names of a column or group.
_ALIASES = {"rps": "target_rps", "c": "connections"}
#: A rate that means "as fast as the connections allow".
_NO_LIMIT = ("0", "max")
_STATE = "with --mesh and --configuration, with --mapping, or with --pattern"


class Refused(MeshperfError):
    """Why a file is not imported: a clause that follows its name."""


@dataclass(frozen=True)
class Claim:
    """What is stated of a file from outside of it; None where nothing is.

    Attributes
    ----------
    mesh, configuration : str or None
    target_rps : int or None
        0 for "no limit".
    block, deployment, connections : int or None
    """

    mesh: str | None = None
    configuration: str | None = None
    target_rps: int | None = None
    block: int | None = None
    deployment: int | None = None
    connections: int | None = None

    def over(self, other: Claim) -> Claim:
        """Return this claim, completed by another one."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(other, **{name: value for name, value in mine.items() if value is not None})

    @classmethod
    def parse(cls, values: Mapping[str, str | None]) -> Claim:
        """Return the claim in text, such as a row of the mapping.

        Raises
        ------
        Refused
            If a value is not what it should be.
        """
        parsed: dict[str, str | int] = {}
        for key, text in values.items():
            name = _ALIASES.get(key, key)
            if text is None or not text.strip():
                continue
            if name in ("mesh", "configuration"):
                parsed[name] = _name(name, text.strip())
            else:
                parsed[name] = _whole(name, text.strip())
        return cls(**parsed)


@dataclass(frozen=True)
class Rules:
    """How to tell which run a file is.

    Attributes
    ----------
    given : Claim
        What holds for all files.
    mapping : mapping of str to Claim
        By file: its name, the end of its path, or either with ``#2`` for the second result in it.
    mapping_name : str
        What to call the mapping in errors.
    pattern : re.Pattern or None
        Searched for in the path; its named groups are the parts of a claim.
    arms : mapping of str to Claim
        Mesh and configuration by the text of the group ``arm``.
    """

    given: Claim = Claim()
    mapping: Mapping[str, Claim] | None = None
    mapping_name: str = ""
    pattern: re.Pattern[str] | None = None
    arms: Mapping[str, Claim] | None = None

    def claim(self, path: Path, part: int, n_parts: int) -> Claim:
        """Return what is stated of a file, or of one of the results in it.

        Parameters
        ----------
        path : Path
            The file.
        part, n_parts : int
            Which result of how many, from 1.

        Raises
        ------
        Refused
            If the mapping has two rows for it, the pattern does not fit, or the mesh or configuration is unknown.
        """
        claim = self._from_mapping(path, part, n_parts).over(self._from_name(path)).over(self.given)
        if claim.mesh is None:
            where = f" (add it to {self.mapping_name})" if self.mapping is not None else ""
            raise Refused(f"its mesh is not known: state it {_STATE}{where}")
        if claim.configuration is None and claim.mesh == BASELINE.mesh:
            claim = replace(claim, configuration=BASELINE.configuration)
        if claim.configuration is None:
            raise Refused(f"the configuration of {claim.mesh} is not known: state it {_STATE}")
        if claim.mesh == BASELINE.mesh and claim.configuration != BASELINE.configuration:
            raise Refused(
                f'the baseline has the configuration "{BASELINE.configuration}", not "{claim.configuration}": '
                "give runs without a mesh no other, or give this one another mesh"
            )
        if claim.mesh == ATTEMPTS:
            raise Refused(f'no mesh can be called "{ATTEMPTS}": give it another name')
        return claim

    def _from_mapping(self, path: Path, part: int, n_parts: int) -> Claim:
        if self.mapping is None:
            return Claim()
        names = [f"#{part}", ""] if n_parts > 1 else ["", "#1"]
        for suffix in names:
            found = [
                claim
                for name, claim in self.mapping.items()
                if name.endswith(suffix) and _is_end(name.removesuffix(suffix), path)
            ]
            if len(found) > 1:
                raise Refused(f"{len(found)} rows of {self.mapping_name} are for it: leave one")
            if found:
                return found[0]
        return Claim()

    def _from_name(self, path: Path) -> Claim:
        if self.pattern is None:
            return Claim()
        match = self.pattern.search(path.as_posix())
        if match is None:
            if self.given.mesh is None and self.mapping is None:
                raise Refused("its path does not fit --pattern: correct the pattern, or leave the file out")
            return Claim()
        groups = match.groupdict()
        arm = groups.pop("arm", None)
        claim = Claim.parse(groups)
        if arm is None:
            return claim
        known = self.arms or {}
        if arm not in known:
            raise Refused(f'its arm "{arm}" is not known: add --arm {arm}=MESH/CONFIGURATION')
        return claim.over(known[arm])


def read_mapping(path: Path) -> dict[str, Claim]:
    """Read a mapping: CSV with the column ``file`` and any of those of a claim.

    Raises
    ------
    MeshperfError
        If it cannot be read, has an unknown column, a bad value, or a file twice.
    """
    allowed = ["file", *(field.name for field in fields(Claim))]
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            columns = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = columns
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not CSV text"
        raise MeshperfError(f"the mapping {path} cannot be read ({reason}): name a CSV file") from None
    unknown = [name for name in columns if _ALIASES.get(name, name) not in allowed]
    if "file" not in columns or unknown:
        problem = f'has the unknown column "{unknown[0]}"' if unknown else 'has no column "file"'
        raise MeshperfError(f"the mapping {path} {problem}: its columns are {', '.join(allowed)}")
    mapping: dict[str, Claim] = {}
    for number, row in enumerate(rows, 2):
        name = (row.pop("file") or "").strip()
        if None in row:
            raise MeshperfError(f"line {number} of {path} has more values than columns: correct it")
        if not name or name in mapping:
            problem = f'names "{name}" again' if name else "names no file"
            raise MeshperfError(f"line {number} of {path} {problem}: give each file one row")
        try:
            mapping[name] = Claim.parse(row)
        except Refused as error:
            raise MeshperfError(f"line {number} of {path}: {error}") from None
    return mapping


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern whose named groups are the parts of a claim.

    Raises
    ------
    MeshperfError
        If it is not a regular expression, or has no or other groups.
    """
    allowed = ["arm", *(field.name for field in fields(Claim)), *_ALIASES]
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise MeshperfError(f"--pattern is not a regular expression ({error}): {text}") from None
    unknown = [name for name in pattern.groupindex if name not in allowed]
    if unknown or not pattern.groupindex:
        problem = f'has the unknown group "{unknown[0]}"' if unknown else "has no named group"
        raise MeshperfError(f"--pattern {problem}: (?P<NAME>...) with NAME one of {', '.join(allowed)}")
    return pattern


def parse_arms(texts: Iterable[str]) -> dict[str, Claim]:
    """Return mesh and configuration by the text that stands for them, from ``TEXT=MESH/CONFIGURATION``.

    Raises
    ------
    MeshperfError
        If one is not of that form.
    """
    arms = {}
    for text in texts:
        name, _, arm = text.partition("=")
        mesh, _, configuration = arm.partition("/")
        if not name or not mesh:
            raise MeshperfError(
                f"--arm {text} is not TEXT=MESH/CONFIGURATION, e.g. both=istio/mtls: correct it"
            )
        try:
            arms[name] = Claim.parse({"mesh": mesh, "configuration": configuration})
        except Refused as error:
            raise MeshperfError(f"--arm {text}: {error}") from None
    return arms


def _is_end(name: str, path: Path) -> bool:
    """Return whether a path ends in a name, whole parts of it."""
    wanted, parts = PurePath(name).parts, path.parts
    return bool(wanted) and parts[-len(wanted) :] == wanted


def _name(what: str, text: str) -> str:
    if not _NAME.fullmatch(text) or len(text) > 60:
        raise Refused(
            f'the {what} "{text}" is not lower-case letters, digits and single hyphens (at most 60 characters): '
            "give it such a name"
        )
    return text


def _whole(what: str, text: str) -> int:
    if what == "target_rps" and text in _NO_LIMIT:
        return 0
    low, high = {"block": (1, 99), "deployment": (1, 9)}.get(what, (1, 10**9))
    if not re.fullmatch("[0-9]{1,10}", text) or not low <= int(text) <= high:
        also = " (or max for no limit)" if what == "target_rps" else ""
        raise Refused(f'the {what} "{text}" is not a whole number from {low} to {high}{also}: correct it')
    return int(text)
