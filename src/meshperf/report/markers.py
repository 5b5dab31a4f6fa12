"""Generated parts of a hand-written document, between markers: ``<!-- name -->`` and ``<!-- /name -->``."""

import re

from meshperf.errors import MeshperfError


def replace(text: str, name: str, new: str) -> str:
    """Return a document with what is between the markers of a name replaced.

    Raises
    ------
    MeshperfError
        If it has no such markers.
    """
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->\n)", flags=re.DOTALL)
    if not block.search(text):
        raise MeshperfError(f"the document has no <!-- {name} --> and <!-- /{name} -->: add these two lines")
    return block.sub(lambda match: f"{match[1]}{new}{match[2]}", text)
