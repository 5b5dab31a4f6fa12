"""Comparison of the arms with the baseline, within blocks.

in:  data/raw/<campaign>/**, the study
out: results/<study>/gate.csv, control.csv       the two baselines against each other
     results/<study>/comparisons.csv, ranks.csv  quantiles of latency
     results/<study>/distances.csv, shifts.csv   whole distributions
"""


rule check_control:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/06-check-control.ipynb",
        library=[*ANALYSIS_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/06-check-control.ipynb",
        page="results/{study}/notebooks/06-check-control.html",
        gate=report(
            "results/{study}/gate.csv",
            category="Control",
            labels={"table": "are the baselines exchangeable?"},
        ),
        control=report(
            "results/{study}/control.csv",
            category="Control",
            labels={"table": "noise of each rate and quantile"},
        ),
    log:
        notebook="logs/{study}/check_control.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Compare the two baselines of each block"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study}"
        " -r gate_path {output.gate} -r control_path {output.control}"


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
        ranks=report(
            "results/{study}/ranks.csv",
            category="Comparisons",
            labels={"table": "order of the arms"},
        ),
    log:
        notebook="logs/{study}/compare_arms.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Compare the arms with the baseline"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study}"
        " -r comparisons_path {output.comparisons} -r ranks_path {output.ranks}"


rule compare_distributions:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/07-compare-distributions.ipynb",
        library=[*ANALYSIS_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/07-compare-distributions.ipynb",
        page="results/{study}/notebooks/07-compare-distributions.html",
        distances=report(
            "results/{study}/distances.csv",
            category="Comparisons",
            labels={"table": "distances between distributions"},
        ),
        shifts=report(
            "results/{study}/shifts.csv",
            category="Comparisons",
            labels={"table": "shift functions"},
        ),
    log:
        notebook="logs/{study}/compare_distributions.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Compare whole distributions with the baseline"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study}"
        " -r distances_path {output.distances} -r shifts_path {output.shifts}"
