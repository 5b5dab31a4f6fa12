"""The services under test and their load generators."""
