"""From frames to a published report: figures, tables, numbers in prose, annex, HTML and PDF.

The order is :mod:`data` (read what the analysis left in ``results/<study>``), :mod:`figures`, :mod:`tables`
and :mod:`values` (write what the paper includes), :mod:`annex` (chapters that depend on the study) and
:mod:`render` (Quarto, or pandoc and Typst). ``python -m meshperf.report STUDY.yaml`` does all of it.
"""
