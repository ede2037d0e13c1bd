"""Environments: the registry of suites and one adapter per file."""
