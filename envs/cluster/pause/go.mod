module meshperf/envs/cluster/pause

go 1.24.0
