"""Analysis of single runs and cells.

in:  data/raw/<campaign>/**, the study
out: results/<study>/runs.csv, slices.csv, drifts.csv             a row per run, with its verdict; steadiness, drift
     results/<study>/cells/<mesh>-<configuration>-<rps>.csv, .svg  the latency distribution of a cell
     results/<study>/cells.csv                                    all cells
     results/<study>/knees.csv                                    largest rate at which each arm works
     results/<study>/resources.csv, cpu.csv, slopes.csv, memory.csv  CPU and memory
     results/<study>/notebooks/*.html                             the executed notebooks
"""


rule check_runs:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/02-check-runs.ipynb",
        library=[*STEADINESS_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/02-check-runs.ipynb",
        page="results/{study}/notebooks/02-check-runs.html",
        runs=report(
            "results/{study}/runs.csv",
            category="Runs",
            labels={"table": "runs and verdicts"},
        ),
        slices=report(
            "results/{study}/slices.csv",
            category="Runs",
            labels={"table": "course of latency within runs"},
        ),
        drifts=report(
            "results/{study}/drifts.csv",
            category="Runs",
            labels={"table": "drift over the campaign"},
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
        " -r slices_path {output.slices} -r drifts_path {output.drifts}"


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


rule find_saturation:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/08-find-saturation.ipynb",
        library=[*ANALYSIS_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/08-find-saturation.ipynb",
        page="results/{study}/notebooks/08-find-saturation.html",
        knees=report(
            "results/{study}/knees.csv",
            category="Saturation",
            labels={"table": "largest rate at which each arm works"},
        ),
    log:
        notebook="logs/{study}/find_saturation.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Find the rate up to which each arm works"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study} -r knees_path {output.knees}"


rule summarise_resources:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        notebook="notebooks/05-resources.ipynb",
        library=[*USAGE_SOURCES, *PLOT_SOURCES],
    output:
        notebook="results/{study}/notebooks/05-resources.ipynb",
        page="results/{study}/notebooks/05-resources.html",
        resources=report(
            "results/{study}/resources.csv",
            category="Resources",
            labels={"table": "CPU and memory"},
        ),
        cpu=report(
            "results/{study}/cpu.csv",
            category="Resources",
            labels={"table": "CPU per request against the baseline"},
        ),
        slopes=report(
            "results/{study}/slopes.csv",
            category="Resources",
            labels={"table": "CPU against rate"},
        ),
        memory=report(
            "results/{study}/memory.csv",
            category="Resources",
            labels={"table": "level and growth of memory"},
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
        " -r cpu_path {output.cpu} -r slopes_path {output.slopes} -r memory_path {output.memory}"
