"""Statistics of repeated runs: arrays in, frozen results out (NumPy and SciPy only, no files, no pandas).

The unit of inference is the block, one fresh deployment of every arm; requests are never replicates.

==================  ==========================================================================
module              contents
==================  ==========================================================================
``results``         result types and the closed list of warnings
``quantiles``       run CDFs, quantiles of binned latencies, their quantisation bounds
``estimability``    which quantiles the data can support, what unsent requests could have hidden
``baselines``       noise floor of a cell, A/A gate of a campaign
``bootstrap``       block weights (all resamples up to 8 blocks) and block intervals
``checks``          interval without assumptions, prediction of a repetition
``components``      variance between blocks, deployments and within runs
``effect``          ratios and differences of quantiles, shift function, equivalence, verdicts
``multiplicity``    corrections for many tests, ranks with their ties
``ks``              distances between distributions, stochastic dominance
``permutation``     tests by relabelling inside blocks
``power``           how many blocks a study needs
``saturation``      largest rate that still works, curve of a queue
``simulate``        campaigns of known truth
``slopes``          CPU against rate and memory against time, one line per deployment or run
``steady``          warm-up and drift within a run
``validation``      checks of all of this on simulated campaigns, and of the usual methods
==================  ==========================================================================

Import what you need from the module that has it; this package imports nothing by itself.
"""
