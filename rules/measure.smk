"""Measurement, on a cluster; included only with --config measure=true.

in:  the study; a cluster
out: results/<study>/measure/**.ipynb, the executed notebook of each run measured now; and, not declared as
     outputs, data/raw/<campaign>/**: Snakemake deletes the outputs of a job that failed, and would repeat a
     measurement whenever its rule was edited. A run directory is whole or not there, so it needs neither.
"""

PENDING = runs.pending(STUDY, CAMPAIGN)


def executed_notebook(key):
    """Return where the notebook that measured a run is kept."""
    return f"results/{STUDY.study}/measure/{key}.ipynb"


def measuring_priority(wildcards):
    """Return a priority that falls along the design's random order."""
    key = design.RunKey(
        wildcards.mesh,
        wildcards.configuration,
        int(wildcards.rps),
        int(wildcards.block),
        int(wildcards.deployment),
    )
    return len(PENDING) - PENDING.index(key) if key in PENDING else 0


# Only runs that are missing are asked for. asked_at makes sure that each of them is measured, also where an executed
# notebook is left from a campaign that was removed.
rule measure_run:
    input:
        study=ancient(STUDY_PATH),
        notebook=ancient("notebooks/01-measure-run.ipynb"),
    output:
        notebook="results/{study}/measure/{mesh}/{configuration}/{rps}/block-{block}-{deployment}.ipynb",
    log:
        notebook="logs/{study}/measure_run/{mesh}/{configuration}/{rps}/block-{block}-{deployment}.ipynb",
    priority: measuring_priority
    conda:
        "../envs/measure.yaml"
    resources:
        cluster=1,
    params:
        asked_at=ASKED_AT,
    message:
        "Measure {wildcards.mesh}/{wildcards.configuration} at {wildcards.rps} RPS,"
        " block {wildcards.block}, deployment {wildcards.deployment}"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " -r study_path {input.study} -r mesh {wildcards.mesh} -r configuration {wildcards.configuration}"
        " -p target_rps {wildcards.rps} -p block $((10#{wildcards.block})) -p deployment {wildcards.deployment}"
        " -p measure true"


rule measure:
    input:
        study=STUDY_PATH,
        measured=[executed_notebook(key) for key in PENDING],
    log:
        "logs/measure.log",
    conda:
        "../envs/measure.yaml"
    message:
        "Seal the campaign, unless a failed run asks for a make-up block"
    shell:
        "python -m meshperf.pipeline seal {input.study} 2>&1 | tee {log} >&2"
