"""Verification: are the raw data whole, unchanged, and what the study asked for?

in:  data/raw/<campaign>/**, the study
out: results/<study>/verify.json, on which all analysis depends
"""


# Snakemake forgives a raw file that vanished when its result exists. So this runs whenever anything is asked for; what
# depends on it does so without looking at its age, and is not repeated for that.
rule verify_campaign:
    input:
        unpack(campaign_data),
        study=STUDY_PATH,
        library=MODEL_SOURCES,
    output:
        report="results/{study}/verify.json",
    log:
        "logs/{study}/verify_campaign.log",
    conda:
        "../envs/analysis.yaml"
    params:
        asked_at=ASKED_AT,
    message:
        "Verify the raw data against their checksums and the design"
    shell:
        "meshperf data verify --study {input.study} --json {output.report} 2>&1 | tee {log} >&2"
