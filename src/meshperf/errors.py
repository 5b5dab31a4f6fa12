"""Errors that are the user's to mend."""


class MeshperfError(Exception):
    """A mistake or a limit that one sentence explains: what is wrong, and what to do about it.

    The command line prints the sentence and exits with 2; no traceback.
    """
