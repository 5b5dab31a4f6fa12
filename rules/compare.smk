"""Comparison of the arms with the baseline, within blocks.

in:  data/raw/<campaign>/**, the study
out: results/<study>/comparisons.csv
"""


rule compare_arms:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/04-compare-arms.ipynb",
        library=[*ANALYSIS_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/04-compare-arms.ipynb",
        page="results/{study}/notebooks/04-compare-arms.html",
        comparisons=report(
            "results/{study}/comparisons.csv",
            category="Comparisons",
            labels={"table": "overhead against the baseline"},
        ),
    log:
        notebook="logs/{study}/compare_arms.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Compare the arms with the baseline"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study} -r comparisons_path {output.comparisons}"
