"""Load generators: each module is the only place that knows its tool's arguments and field names."""
