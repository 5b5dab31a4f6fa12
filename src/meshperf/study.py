"""The study: a typed model of ``config/*.yaml``, and sentences for what is wrong with one.

The description of each field completes the sentence "<key> must be ...": it is both the documentation in the
JSON Schema and the remedy in an error message.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from meshperf.design import BASELINE, Arm
from meshperf.errors import MeshperfError
from meshperf.meshes import NUMBERED, SUPPORTED, explained, supports
from meshperf.meshes.base import SCRAPE_INTERVAL_S

#: Campaigns whose id ends so stay on the machine that measured them: git ignores them.
LOCAL_SUFFIX = "-local"

_NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_NAME_RULE = "lower-case letters, digits and single hyphens, at most 60 characters"
Name = Annotated[str, Field(pattern=_NAME, max_length=60)]
PositiveSeconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Testbed(_Part):
    """Where to measure."""

    kind: Literal["auto", "context", "kind", "embedded"] = Field(
        "auto",
        description="auto (a named context, else kind, else the embedded cluster), context, kind or embedded",
    )
    context: str | None = Field(
        None,
        min_length=1,
        description="the name of a kubeconfig context (`kubectl config get-contexts` lists them) or null",
    )

    @model_validator(mode="after")
    def _check(self) -> "Testbed":
        if self.context is not None and self.kind not in ("auto", "context"):
            raise _mistake(
                f'testbed.context names "{self.context}" but testbed.kind is {self.kind}: '
                "remove the context, or set kind: context"
            )
        return self


class MeshArms(_Part):
    """The arms of one mesh."""

    mesh: str = Field(description="a supported mesh (`meshperf mesh list` prints them)")
    configurations: tuple[str, ...] = Field(
        min_length=1, description="a list of supported configurations of that mesh, e.g. [basic, mtls]"
    )

    @model_validator(mode="after")
    def _check(self) -> "MeshArms":
        if self.mesh == BASELINE.mesh:
            raise _mistake('arms must not list "baseline": every block has it twice already, so remove it')
        return self

    def check_supported(self) -> None:
        """Raise a mistake unless this version can measure the arms."""
        supported = {mesh: names for mesh, names in SUPPORTED.items() if mesh != BASELINE.mesh}
        if self.mesh not in supported:
            raise _mistake(
                f'unknown mesh "{self.mesh}" in arms{_did_you_mean(self.mesh, supported)}: '
                f"supported are {_listing(supported)}"
            )
        for name in self.configurations:
            if not supports(self.mesh, name):
                raise _mistake(
                    f'unknown configuration "{name}" of {self.mesh} in arms'
                    f"{_did_you_mean(name, supported[self.mesh])}: "
                    f"supported are {_listing(explained(supported[self.mesh]))}"
                )


class Imported(_Part):
    """Where the runs of an imported campaign come from; nothing of it was measured here."""

    baselines: int = Field(ge=0, le=9, description="0 to 9: how many runs of the baseline each block has")
    source: str | None = Field(
        None, min_length=1, description="one line that says where the files are from, or null"
    )
    licence: str | None = Field(
        None, min_length=1, description="the licence of the files, or null if not known"
    )


class Load(_Part):
    """What is asked of the load generator, the same in every run."""

    connections: int = Field(16, ge=1, description="at least 1 connection (a whole number)")
    duration_s: PositiveSeconds = Field(60, description="more than 0 seconds of load per run")
    warmup_s: float = Field(
        10, ge=0, description="0 or more seconds of load before each run, which are thrown away"
    )
    resolution_s: PositiveSeconds = Field(
        0.00005, description="more than 0 seconds: the width of the load generator's finest histogram bin"
    )
    payload_bytes: int = Field(0, ge=0, description="0 or more bytes of request body (a whole number)")
    slice_s: PositiveSeconds = Field(5, description="more than 0 seconds: the length of the slices of a run")
    timeout_s: PositiveSeconds = Field(3, description="more than 0 seconds to wait for one response")

    @model_validator(mode="after")
    def _check(self) -> "Load":
        if self.slice_s > self.duration_s:
            raise _mistake(
                f"load.duration_s ({self.duration_s:g}) must be at least load.slice_s ({self.slice_s:g}): "
                "lengthen the run or shorten the slices"
            )
        return self


class Limits(_Part):
    """Limits of one container, as Kubernetes writes them."""

    cpu: str | None = Field(
        None,
        pattern=r"^([0-9]+m|[0-9]+(\.[0-9]{1,3})?)$",
        description='a Kubernetes CPU quantity in quotes, such as "325m" or "2", or null',
    )
    memory: str | None = Field(
        None,
        pattern=r"^[0-9]+(\.[0-9]+)?([kMGT]|[KMGT]i)?$",
        description='a Kubernetes memory quantity in quotes, such as "256Mi", or null',
    )


class Workload(_Part):
    """The service under test and its client: where they run, and what they may use."""

    placement: Literal["same-node", "other-node", "node-selector"] = Field(
        "same-node", description="same-node, other-node or node-selector"
    )
    client_node_selector: dict[str, str] = Field(
        default_factory=dict, description="a mapping of node labels to values, e.g. {role: client}"
    )
    server_node_selector: dict[str, str] = Field(
        default_factory=dict, description="a mapping of node labels to values, e.g. {role: server}"
    )
    server_limits: Limits = Field(default_factory=Limits, description="a mapping with cpu and memory")
    client_limits: Limits = Field(default_factory=Limits, description="a mapping with cpu and memory")

    @model_validator(mode="after")
    def _check(self) -> "Workload":
        selectors = bool(self.client_node_selector), bool(self.server_node_selector)
        if self.placement == "node-selector" and not all(selectors):
            raise _mistake(
                "workload.placement node-selector needs both workload.client_node_selector and "
                "workload.server_node_selector: add them, or choose same-node or other-node"
            )
        if self.placement != "node-selector" and any(selectors):
            raise _mistake(
                f"workload.placement is {self.placement}, which uses no node selectors: "
                "remove them, or set placement: node-selector"
            )
        return self


class Families(_Part):
    """Which comparisons are tested together; what is in no family is exploratory and supports no claim."""

    quantiles: tuple[Share, ...] = Field(
        (0.5, 0.99),
        description="a list of the study's quantiles whose overhead may be claimed (corrected by Holm over all arms "
        "and the rates below), e.g. [0.5, 0.99]",
    )
    target_rps: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(
        None,
        description="a list of the study's target_rps at which it may be claimed, or null for all of them",
    )
    false_discovery_rate: Share = Field(
        0.1,
        description="between 0 and 1: the share of false ones among the distributions that are called different "
        "(Benjamini and Hochberg), e.g. 0.1",
    )


class Planned(_Part):
    """The effect that a study should be able to find: what its planner reckons with."""

    ratio: Annotated[float, Field(gt=1)] = Field(
        1.1, description="a ratio of latency quantiles above 1 that should be found, e.g. 1.1"
    )
    power: Share = Field(0.8, description="between 0 and 1: how surely it should be found, e.g. 0.8")


class Analysis(_Part):
    """How the data are analysed: fixed before they are measured."""

    confidence: Share = Field(0.95, description="between 0 and 1: the level of every interval, e.g. 0.95")
    alpha: Share = Field(0.05, description="between 0 and 1: the level of every test, e.g. 0.05")
    equivalence_margins: dict[Annotated[str, Field(pattern=r"^p[0-9]+$")], Annotated[float, Field(gt=0)]] = (
        Field(
            default_factory=lambda: {"p50": 0.05, "p99": 0.10},
            description="a mapping of percentiles to ratios above 0 that count as no difference, "
            "e.g. {p50: 0.05}",
        )
    )
    rate_tiers: tuple[Share, Share] = Field(
        (0.95, 0.99),
        description="two ascending ratios of achieved to target RPS between 0 and 1: below the first a run "
        "is saturated, below the second degraded",
    )
    estimable: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = Field(
        (10, 30),
        description="two ascending numbers of effective requests beyond a quantile: below the first it is "
        "not estimable, below the second it carries a dagger",
    )
    n_resamples: int = Field(10000, ge=100, description="at least 100 resamples (a whole number)")
    max_error_ratio: float = Field(
        0.001, ge=0, lt=1, description="from 0 to below 1: more errors per request than this fail a run"
    )
    families: Families = Field(
        default_factory=Families, description="a mapping with quantiles, target_rps and false_discovery_rate"
    )
    tail_region: tuple[Share, Share] = Field(
        (0.002, 0.05),
        description="two ascending shares of requests: the part of the distribution whose tail is compared, "
        "e.g. [0.002, 0.05]",
    )
    dominance_epsilon: Share = Field(
        0.01,
        description="between 0 and 1: the share of requests that a statement on all latencies may leave out",
    )
    knee_ratio: Annotated[float, Field(gt=1)] = Field(
        2.0,
        description="above 1: a rate whose p99 is more than this many times that of the lowest is beyond the knee",
    )
    planned: Planned = Field(default_factory=Planned, description="a mapping with ratio and power")

    @model_validator(mode="after")
    def _check(self) -> "Analysis":
        for name in ("rate_tiers", "estimable", "tail_region"):
            low, high = getattr(self, name)
            if low > high:
                raise _mistake(f"analysis.{name} must ascend, not [{low:g}, {high:g}]: exchange the two")
        return self


class Study(_Part):
    """A study: what is varied, how often and in which random order, and how it will be analysed."""

    model_config = ConfigDict(title="meshperf study")

    study: Name = Field(description=f"the study's name ({_NAME_RULE}); results go to results/<study>/")
    campaign: Name = Field(
        description=f"the campaign's id ({_NAME_RULE}); data go to data/raw/<campaign>/; "
        f"one that ends in {LOCAL_SUFFIX} stays out of version control"
    )
    title: str = Field(
        min_length=1, max_length=200, pattern=r"^[^\n]*\S[^\n]*$", description="one line of text"
    )
    seed: int = Field(ge=0, lt=2**63, description="a whole number from 0: it fixes every random order")
    testbed: Testbed = Field(default_factory=Testbed, description="a mapping with kind and context")
    imported: Imported | None = Field(
        None,
        description="null, or for results that others measured a mapping that `meshperf data import` writes",
    )
    arms: tuple[MeshArms, ...] = Field(
        description="a list of what to compare with the baseline, "
        "e.g. [{mesh: istio, configurations: [mtls]}]",
    )
    target_rps: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        min_length=1,
        description="whole numbers of requests per second, each at least 1, e.g. [200, 500]",
    )
    blocks: int = Field(
        ge=1,
        le=99,
        description="at least 1 and at most 99 (a whole number; 3 to print an interval, 6 for a claim)",
    )
    makeup_blocks: int = Field(
        2,
        ge=0,
        le=99,
        description="0 to 99 (a whole number): how many blocks with a failed run may be repeated",
    )
    load: Load | None = Field(
        default_factory=Load,
        description="a mapping with connections, duration_s, ...; null in a study of imported results, which nobody "
        "here asked for",
    )
    workload: Workload = Field(default_factory=Workload, description="a mapping with placement, ...")
    quantiles: tuple[Share, ...] = Field(
        (0.5, 0.9, 0.99), min_length=1, description="numbers between 0 and 1, e.g. [0.5, 0.9, 0.99]"
    )
    analysis: Analysis = Field(default_factory=Analysis, description="a mapping with confidence, alpha, ...")

    @model_validator(mode="after")
    def _check(self) -> "Study":
        for name, values in (
            ("arms", self.arms_expanded),
            ("target_rps", self.target_rps),
            ("quantiles", self.quantiles),
        ):
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise _mistake(f"{name} lists {twice} more than once: remove the repetition")
        families = self.analysis.families
        for name, known in (("quantiles", self.quantiles), ("target_rps", self.target_rps)):
            # The default quantiles are a choice for all studies: one that lacks p99 claims nothing of it.
            declared = getattr(families, name) if name in families.model_fields_set else None
            strange = next((value for value in declared or () if value not in known), None)
            if strange is not None:
                raise _mistake(
                    f"analysis.families.{name} has {strange:g}, which is not among the study's {name}: "
                    "add it there or remove it here"
                )
        if self.imported is None:
            self._check_measured()
        elif self.load is not None or self.makeup_blocks:
            raise _mistake(
                "a study of imported results asks for no load and no make-up blocks: "
                "set load: null and makeup_blocks: 0, or remove the key imported"
            )
        return self

    def _check_measured(self) -> None:
        """Raise a mistake unless it can be measured."""
        fields = type(self).model_fields
        if not self.arms:
            raise _mistake(f"arms must be {fields['arms'].description}, not []")
        if 0 in self.target_rps:
            place = f"target_rps[{self.target_rps.index(0)}]"
            raise _mistake(f"{place} must be {fields['target_rps'].description}, not 0")
        if self.load is None:
            raise _mistake(f"load must be {fields['load'].description}, not null")
        for arms in self.arms:
            arms.check_supported()
        if self.blocks + self.makeup_blocks > 99:
            raise _mistake(
                f"blocks ({self.blocks}) and makeup_blocks ({self.makeup_blocks}) together must be "
                "at most 99: lower one of them"
            )
        scraped = next((arm for arm in self.arms_expanded if arm.configuration.endswith("-metrics")), None)
        if scraped and self.load.duration_s < SCRAPE_INTERVAL_S:
            raise _mistake(
                f"load.duration_s ({self.load.duration_s:g}) must be at least {SCRAPE_INTERVAL_S} for {scraped}, "
                f"which is scraped every {SCRAPE_INTERVAL_S} s: lengthen the run, or leave the arm out"
            )
        fewest = min(self.target_rps) * self.load.duration_s
        if fewest < 2 * self.load.connections:
            raise _mistake(
                f"target_rps {min(self.target_rps)} for {self.load.duration_s:g} s is {fewest:g} requests, "
                f"fewer than 2 on each of load.connections ({self.load.connections}): "
                "lengthen load.duration_s or use fewer connections"
            )

    @property
    def arms_expanded(self) -> tuple[Arm, ...]:
        """The arms besides the baseline, in the order of the file."""
        return tuple(Arm(arms.mesh, name) for arms in self.arms for name in arms.configurations)

    @property
    def is_local(self) -> bool:
        """Whether the campaign stays on this machine (see `LOCAL_SUFFIX`)."""
        return self.campaign.endswith(LOCAL_SUFFIX)

    @property
    def load_s(self) -> float:
        """Seconds of one run under load, warm-up included."""
        return self.load.warmup_s + self.load.duration_s if self.load else 0.0

    def require_measured(self) -> None:
        """Refuse a study of imported results, of which nothing can be measured.

        Raises
        ------
        MeshperfError
            If it is one.
        """
        if self.imported is not None:
            raise MeshperfError(
                f"the campaign {self.campaign} was imported, so that nothing of it can be measured: "
                f"add results with `meshperf data import`, and finish it with `meshperf data seal {self.campaign}`"
            )


def load_study(path: str | Path) -> Study:
    """Read and check a study file.

    Parameters
    ----------
    path : str or Path
        A YAML file, e.g. ``config/quick.yaml``.

    Raises
    ------
    MeshperfError
        If there is no such file, or it is not a study: one sentence with file, key, value and remedy.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MeshperfError(f"there is no study file {path}{_neighbours(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise MeshperfError(f"the study file {path} cannot be read ({reason}): name a YAML file") from None
    try:
        content = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise MeshperfError(f"{path} is not valid YAML: {_yaml_reason(error)}") from None
    return parse_study(content, str(path))


def parse_study(content: Any, source: str) -> Study:
    """Check the content of a study file.

    Parameters
    ----------
    content : object
        What the YAML or JSON held.
    source : str
        What to call it in an error.

    Raises
    ------
    MeshperfError
        If it is not a study.
    """
    if not isinstance(content, Mapping):
        held = "nothing" if content is None else f"a {type(content).__name__}"
        raise MeshperfError(
            f"{source} must be a mapping of keys such as study, arms and blocks, not {held}: "
            "start from config/quick.yaml"
        )
    try:
        # By way of JSON, where strict types still let a list become a tuple.
        return Study.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        # A misspelt key is also a missing one: the former says more.
        problems = sorted(
            error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden"
        )
        more = len(problems) - 1
        rest = f" (and {more} more mistake{'s' if more > 1 else ''})" if more else ""
        raise MeshperfError(f"{source}: {_sentence(problems[0])}{rest}") from None


def study_sha256(study: Study) -> str:
    """Return the hash of all that decides what is measured: everything but title, quantiles and analysis.

    Two studies with the same hash can share a campaign.
    """
    return _sha256(measured_part(study))


def analysis_plan_sha256(study: Study) -> str:
    """Return the hash of what fixes the design and the analysis: a change after data exist is to be reported.

    It covers everything but the title and the place of measurement. What later versions added to the analysis
    counts only where it is not the default, so that the plans of older campaigns keep their hash.
    """
    plan = _plan(study, {"title", "testbed"})
    for name in _ADDED_LATER:
        if plan["analysis"][name] == Analysis().model_dump(mode="json")[name]:
            del plan["analysis"][name]
    return _sha256(plan)


def changed_plan(recorded: Mapping[str, Any], study: Study) -> list[str]:
    """Say what of a study's plan differs from the one that was recorded when its campaign began.

    Parameters
    ----------
    recorded : mapping
        ``study`` of the campaign's ``design.json``.
    study : Study
        The study that is analysed.

    Returns
    -------
    list of str
        "analysis.alpha: 0.05, now 0.1" for each difference; empty if the plan is the same.
    """
    began = parse_study(recorded, "the study recorded in design.json")
    before, now = (_flat(_plan(one, {"title", "testbed"})) for one in (began, study))
    return [
        f"{key}: {json.dumps(before.get(key))}, now {json.dumps(now.get(key))}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key)
    ]


#: Fields of the analysis that campaigns before them do not have in their recorded plan.
_ADDED_LATER = ("families", "tail_region", "dominance_epsilon", "knee_ratio", "planned")


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested mapping with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def measured_part(study: Study) -> dict[str, Any]:
    """Return the part of a study that decides what is measured, as plain JSON values."""
    return _plan(study, {"title", "quantiles", "analysis"})


def _plan(study: Study, exclude: set[str]) -> dict[str, Any]:
    """Return a study without some keys; "not imported" is no key, so that hashes are those of before it existed."""
    content = study.model_dump(mode="json", exclude=exclude)
    return {name: value for name, value in content.items() if name != "imported" or value is not None}


def json_schema() -> str:
    """Return the JSON Schema of study files, as text that ends in a newline."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}
    meshes = [mesh for mesh in SUPPORTED if mesh != BASELINE.mesh]
    schema["$defs"]["MeshArms"]["properties"]["mesh"]["enum"] = meshes
    schema["$defs"]["MeshArms"]["oneOf"] = [
        {
            "properties": {
                "mesh": {"const": mesh},
                "configurations": {"items": _configurations_schema(SUPPORTED[mesh])},
            }
        }
        for mesh in meshes
    ]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _configurations_schema(names: Iterable[str]) -> dict[str, Any]:
    names = list(names)
    fixed = {"enum": [name for name in names if name not in NUMBERED]}
    numbered = [{"pattern": f"^{NUMBERED[name][0]}$"} for name in names if name in NUMBERED]
    return {"anyOf": [fixed, *numbered]} if numbered else fixed


def _sha256(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _mistake(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("meshperf_mistake", "{sentence}", {"sentence": sentence})


def _did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _listing(words: Iterable[str]) -> str:
    return ", ".join(words)


def _neighbours(path: Path) -> str:
    directory = path.parent
    known = sorted(other.name for other in directory.glob("*.yaml")) if directory.is_dir() else []
    if known:
        return f"{_did_you_mean(path.name, known, cutoff=0.8)}: {directory} has {_listing(known)}"
    return ": name one of config/*.yaml, e.g. config/quick.yaml"


def _yaml_reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{where}{problem}"


def _sentence(problem: ErrorDetails) -> str:
    """Return what is wrong with one key, its value, and what it must be."""
    location = tuple(part for part in problem["loc"] if part != "[key]")
    key = _key(location)
    kind = problem["type"]
    if kind == "meshperf_mistake":
        return problem["msg"]
    if kind == "extra_forbidden":
        known = _fields_at(location[:-1])
        return (
            f'unknown key "{key}"{_did_you_mean(str(location[-1]), known)}: '
            f"remove it, or use one of {_listing(known)}"
        )
    requirement = _requirement(location)
    if kind == "missing":
        return f'the key "{key}" is missing: it must be {requirement}'
    return f"{key} must be {requirement}, not {json.dumps(problem['input'], ensure_ascii=False, default=str)}"


def _key(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def _walk(location: tuple[int | str, ...]) -> Iterator[tuple[type[BaseModel], FieldInfo | None]]:
    """Yield, part by part, the model that a location passes through and its field there."""
    model: type[BaseModel] = Study
    for part in location:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        yield model, field
        if field is not None:
            model = next(_models(field.annotation), model)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def _requirement(location: tuple[int | str, ...]) -> str:
    fields = [field for _, field in _walk(location) if field is not None]
    return fields[-1].description if fields and fields[-1].description else "what the schema says"


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the mapping at a location may have."""
    model = Study
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = next(_models(model.model_fields[part].annotation), model)
    return list(model.model_fields)


class _Loader(yaml.SafeLoader):
    """YAML with two traps removed: a key given twice is refused, and 5e-5 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'the key "{key}" is given twice: remove one of them', key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
