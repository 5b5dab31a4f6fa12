"""Counters in Prometheus' text format, as Envoy and cAdvisor print them."""

import re
from collections.abc import Iterator

_LINE = re.compile(
    r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>[-+0-9.eE]+|NaN|[+-]Inf)"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def series(text: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Yield labels and value of every series of one name."""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and match["name"] == name:
            yield dict(_LABEL.findall(match["labels"] or "")), float(match["value"])


def total(text: str, name: str, **labels: str) -> int:
    """Return the sum of a counter over the series whose labels all match in full.

    Parameters
    ----------
    text : str
        An exposition; comments and other series are passed over.
    name : str
        Name of the counter.
    **labels : str
        Regular expression per label.
    """
    patterns = {label: re.compile(pattern) for label, pattern in labels.items()}
    return int(
        sum(
            value
            for found, value in series(text, name)
            if all(pattern.fullmatch(found.get(label, "")) for label, pattern in patterns.items())
        )
    )
