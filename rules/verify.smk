"""Verification: are the raw data whole, unchanged, and what the study asked for?

in:  data/raw/<campaign>/**, the study
out: results/<study>/verify.json, on which all analysis depends
"""


rule verify_campaign:
    input:
        raw=RAW_DATA,
        study=STUDY_PATH,
        library=MODEL_SOURCES,
    output:
        report="results/{study}/verify.json",
    log:
        "logs/{study}/verify_campaign.log",
    conda:
        "../envs/analysis.yaml"
    message:
        "Verify the raw data against their checksums and the design"
    shell:
        "python -m meshperf.pipeline verify {input.study} {output.report} 2>&1 | tee {log} >&2"
