"""Reading, aggregating and showing score curves; see `scores/README.md`."""
