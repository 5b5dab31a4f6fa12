"""Which mesh supports which configuration, and where it was run: ``python -m meshperf.report.support README.md``.

Made from :data:`meshperf.meshes.MESHES` and from nothing else, for the README and for the report.
"""

import sys
from pathlib import Path

import pandas as pd

from meshperf.errors import MeshperfError
from meshperf.meshes import MESHES
from meshperf.report import formats, style
from meshperf.report.markers import replace

HEADS = ("Mesh", "run here, on the embedded cluster", "not run here: needs images from the internet")


def support_table() -> pd.DataFrame:
    """Return a row per mesh with its configurations, those that the embedded cluster runs and the others."""
    rows = []
    for name, support in MESHES.items():
        others = [c for c in support.configurations if c not in support.embedded]
        rows.append([style.mesh_label(name), _listed(support.embedded), _listed(others)])
    return pd.DataFrame(rows, columns=list(HEADS))


def markdown() -> str:
    """Return the table as Markdown."""
    frame = support_table()
    lines = [f"| {' | '.join(frame.columns)} |", f"|{'---|' * len(frame.columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in frame.to_numpy()]
    return "\n".join(lines) + "\n"


def _listed(configurations) -> str:
    return ", ".join(f"`{name}`" for name in configurations) or formats.DASH


def main(documents: list[str]) -> int:
    """Write the table into documents, or print it."""
    try:
        for document in map(Path, documents):
            document.write_text(
                replace(document.read_text(encoding="utf-8"), "support", markdown()), encoding="utf-8"
            )
        if not documents:
            print(markdown(), end="")
    except (MeshperfError, OSError) as error:
        print(f"meshperf: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
