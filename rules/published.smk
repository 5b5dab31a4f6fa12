"""The published tables, read again and put beside the study.

in:  data/published/*.csv, results/<study>/{comparisons,resources}.csv
out: results/<study>/published/*.csv
"""


rule read_published:
    input:
        published=PUBLISHED_DATA,
        study=STUDY_PATH,
        comparisons="results/{study}/comparisons.csv",
        resources="results/{study}/resources.csv",
        notebook="notebooks/10-read-published.ipynb",
        library=[*FRAME_SOURCES, *PUBLISHED_SOURCES],
    output:
        notebook="results/{study}/notebooks/10-read-published.ipynb",
        page="results/{study}/notebooks/10-read-published.html",
        published=report(
            directory("results/{study}/published"),
            patterns=["{table}.csv"],
            category="Published results",
            labels={"table": "{table}"},
        ),
    log:
        notebook="logs/{study}/read_published.ipynb",
    conda:
        "../envs/analysis.yaml"
    message:
        "Read the published results again"
    shell:
        "python -m meshperf.notebook {input.notebook} --log {log.notebook} --output {output.notebook}"
        " --html {output.page} -r study_path {input.study} -r comparisons_path {input.comparisons}"
        " -r resources_path {input.resources} -r published_path {output.published}"
