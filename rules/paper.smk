"""The report: figures, tables and numbers from results, then HTML and PDF.

in:  results/<study>/*.csv, which passed their tests; results/<study>/published; paper/**
out: results/<study>/report/index.html, report.pdf, and what they are made of
"""


rule build_report:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        verified="results/{study}/verify.json",
        tested="results/{study}/test-results.txt",
        tables=expand("results/{{study}}/{table}.csv", table=RESULT_TABLES),
        published="results/{study}/published",
        validation=VALIDATION,
        paper=PAPER_SOURCES,
        library=REPORT_SOURCES,
    output:
        html="results/{study}/report/index.html",
        pdf=report(
            "results/{study}/report/report.pdf",
            category="Report",
            labels={"document": "report"},
        ),
        values="results/{study}/values.yml",
        figures=report(
            directory("results/{study}/figures"),
            patterns=["{figure}.svg"],
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        tables=report(
            directory("results/{study}/tables"),
            patterns=["{table}.csv"],
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        "logs/{study}/build_report.log",
    conda:
        "../envs/paper.yaml"
    message:
        "Build the report as HTML and PDF"
    shell:
        "python -m meshperf.report {input.study} 2>&1 | tee {log} >&2"
