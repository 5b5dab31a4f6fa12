"""The systems under test, one module each, and the one table of what each supports."""

#: mesh -> configurations it supports, in the order in which they are printed everywhere.
SUPPORTED: dict[str, tuple[str, ...]] = {
    "baseline": ("none",),
    "istio": ("basic", "mtls"),
}
