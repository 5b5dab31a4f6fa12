"""Analysis of a measured campaign, and, in a mode of its own, its measurement.

    snakemake                                          the report of config/embedded.yaml
    snakemake --config study=config/quick.yaml         the report of another study
    snakemake measure --config study=config/quick.yaml measure=true

The study file is the whole configuration: what is varied, measured and analysed is in it and nowhere else.
"""

from snakemake.utils import min_version

min_version("9.19")


include: "rules/common.smk"


wildcard_constraints:
    study=STUDY.study,
    mesh=alternatives(arm.mesh for arm in ARMS),
    configuration=alternatives(arm.configuration for arm in ARMS),
    rps=r"\d+",
    block=r"\d{2}",
    deployment=r"\d",


include: "rules/verify.smk"
include: "rules/analyse.smk"
include: "rules/compare.smk"
include: "rules/published.smk"
include: "rules/paper.smk"
include: "rules/test.smk"


# Raw data are immutable. With the measuring rules in the workflow, an edit of one would mark measured runs as
# outdated; without them, a report can only read.
if MEASURE:

    include: "rules/measure.smk"


rule all:
    default_target: True
    input:
        expand("results/{study}/{output}", study=STUDY.study, output=OUTPUTS),


onerror:
    print(
        f"meshperf: the workflow of {STUDY_PATH} stopped: the first error above says why"
    )
