"""Comparison of the arms with the baseline, within blocks.

in:  data/raw/<campaign>/**, the study
out: results/<study>/gate.csv, control.csv       the two baselines against each other
     results/<study>/comparisons.csv, ranks.csv  quantiles of latency
     results/<study>/distances.csv, shifts.csv   whole distributions
     results/<study>/sensitivity.csv, components.csv  what was not seen, and where the spread comes from
     results/<study>/features.csv, decisions.csv what a feature costs, and which arm to choose
     results/<study>/plan.csv                    what the campaign could detect
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


rule choose_arm:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/11-choose-arm.ipynb",
        library=[*ANALYSIS_SOURCES, *sources("meshes")],
    output:
        notebook="results/{study}/notebooks/11-choose-arm.ipynb",
        page="results/{study}/notebooks/11-choose-arm.html",
        features=report(
            "results/{study}/features.csv",
            category="Comparisons",
            labels={"table": "what a feature costs"},
        ),
        decisions=report(
            "results/{study}/decisions.csv",
            category="Comparisons",
            labels={"table": "which arm to choose"},
        ),
    log:
        notebook="logs/{study}/choose_arm.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Rank the arms by what may matter most"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study}"
        " -r features_path {output.features} -r decisions_path {output.decisions}"


rule plan_blocks:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/12-plan-blocks.ipynb",
        library=ANALYSIS_SOURCES,
    output:
        notebook="results/{study}/notebooks/12-plan-blocks.ipynb",
        page="results/{study}/notebooks/12-plan-blocks.html",
        plan=report(
            "results/{study}/plan.csv",
            category="Control",
            labels={"table": "what the campaign could detect"},
        ),
    log:
        notebook="logs/{study}/plan_blocks.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Say what the campaign could detect"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study} -p ratio 1.1 -p power 0.8"
        " -r plan_path {output.plan}"


rule test_sensitivity:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/09-test-sensitivity.ipynb",
        library=ANALYSIS_SOURCES,
    output:
        notebook="results/{study}/notebooks/09-test-sensitivity.ipynb",
        page="results/{study}/notebooks/09-test-sensitivity.html",
        sensitivity=report(
            "results/{study}/sensitivity.csv",
            category="Comparisons",
            labels={"table": "what bins and unsent requests could hide"},
        ),
        components=report(
            "results/{study}/components.csv",
            category="Control",
            labels={"table": "where the spread comes from"},
        ),
    log:
        notebook="logs/{study}/test_sensitivity.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Test what the numbers owe to what was not seen"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study}"
        " -r sensitivity_path {output.sensitivity} -r components_path {output.components}"
