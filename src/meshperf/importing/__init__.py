"""Results that others measured, as campaigns of runs in the layout of our own raw data.

An imported run says of itself no more than its file does: what is unknown is null, no proof and no resources are
claimed, and the untouched file is kept beside with its name and hash. Wherever the data are shown, they are
called imported.
"""

from meshperf.importing.campaigns import Outcome, import_files
from meshperf.importing.identity import Claim, Rules

__all__ = ["Claim", "Outcome", "Rules", "import_files"]
