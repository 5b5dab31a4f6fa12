"""The chapter "Published results, re-read", made from what the notebook 10-read-published wrote.

``values`` has the reading, the chapter's conditions and its numbers, ``figures`` and ``tables`` its floats, ``plots``
the drawings. A study without ``results/<study>/published`` has no such chapter.
"""
