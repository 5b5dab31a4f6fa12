"""Tests of results: what must hold of any campaign's numbers, checked before they are published.

in:  results/<study>/*.csv
out: results/<study>/test-results.txt
"""


rule test_results:
    input:
        tables=expand("results/{{study}}/{table}.csv", table=RESULT_TABLES),
        study=STUDY_PATH,
        tests="tests/results/test_results.py",
    output:
        summary="results/{study}/test-results.txt",
    log:
        "logs/{study}/test_results.log",
    conda:
        "../envs/test.yaml"
    message:
        "Test the results"
    shell:
        "python -m pytest -q -p no:cacheprovider {input.tests} --results results/{wildcards.study}"
        " --study {input.study} 2>&1 | tee {log} >&2 && cp {log} {output.summary}"
