"""Placeholder; filled in by the lead."""
