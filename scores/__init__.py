"""Score curves of runs beside published ones: figures, tables and score files."""
