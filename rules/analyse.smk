"""Analysis of single runs and cells.

in:  data/raw/<campaign>/**, the study
out: results/<study>/runs.csv                                     a row per run, with its verdict
     results/<study>/cells/<mesh>-<configuration>-<rps>.csv, .svg  the latency distribution of a cell
     results/<study>/cells.csv                                    all cells
     results/<study>/resources.csv                                CPU and memory per run and container
     results/<study>/notebooks/*.html                             the executed notebooks
"""


rule check_runs:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/02-check-runs.ipynb",
        library=[*FRAME_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/02-check-runs.ipynb",
        page="results/{study}/notebooks/02-check-runs.html",
        runs=report(
            "results/{study}/runs.csv",
            category="Runs",
            labels={"table": "runs and verdicts"},
        ),
    log:
        notebook="logs/{study}/check_runs.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Check the runs: verdicts, achieved rates, drift"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study} -r runs_path {output.runs}"


rule describe_cell:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/03-describe-cell.ipynb",
        library=[*ANALYSIS_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/03-describe-cell-{mesh}-{configuration}-{rps}.ipynb",
        page="results/{study}/notebooks/03-describe-cell-{mesh}-{configuration}-{rps}.html",
        cell="results/{study}/cells/{mesh}-{configuration}-{rps}.csv",
        figure=report(
            "results/{study}/cells/{mesh}-{configuration}-{rps}.svg",
            category="Cells",
            labels={
                "mesh": "{mesh}",
                "configuration": "{configuration}",
                "target RPS": "{rps}",
            },
        ),
    log:
        notebook="logs/{study}/describe_cell/{mesh}-{configuration}-{rps}.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Describe {wildcards.mesh}/{wildcards.configuration} at {wildcards.rps} RPS"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study} -r mesh {wildcards.mesh}"
        " -r configuration {wildcards.configuration} -p target_rps {wildcards.rps}"
        " -r cell_path {output.cell} -r figure_path {output.figure}"


rule collect_cells:
    input:
        cells=expand(
            "results/{{study}}/cells/{cell.arm.mesh}-{cell.arm.configuration}-{cell.target_rps}.csv",
            cell=CELLS,
        ),
    output:
        cells=report(
            "results/{study}/cells.csv",
            category="Cells",
            labels={"table": "latency of all cells"},
        ),
    log:
        "logs/{study}/collect_cells.log",
    conda:
        "../envs/analysis.yaml"
    message:
        "Collect the cells in one table"
    shell:
        "python -m meshperf.pipeline concatenate {output.cells} {input.cells} 2> {log}"


rule summarise_resources:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/05-resources.ipynb",
        library=[*FRAME_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/05-resources.ipynb",
        page="results/{study}/notebooks/05-resources.html",
        resources=report(
            "results/{study}/resources.csv",
            category="Resources",
            labels={"table": "CPU and memory"},
        ),
    log:
        notebook="logs/{study}/summarise_resources.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Summarise CPU and memory"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study} -r resources_path {output.resources}"
