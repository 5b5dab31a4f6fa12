"""What others published about the cost of a service mesh, read again.

The tables are in ``data/published`` exactly as they were printed; nothing in them is corrected.

==============  ==============================================================================
module          contents
==============  ==============================================================================
``tables``      loaders: the printed text, and the same as typed frames in SI units
``printed``     audit of what is printed: reprints, captions, percentiles, sample sizes, rates
``effects``     mesh against no mesh and TLS against plaintext, with the noise to hold against
``claims``      figures and rankings of the prose against the tables, and beyond the node
``bands``       what quantiles alone say of a distribution: a band, never a curve
``comparison``  the same arms in one of our own campaigns, side by side
``results``     all of it, written to ``results/<study>/published``
==============  ==============================================================================
"""
