"""What each contender's processes run: `python -m` one of these files. Only here may a benchmark import a framework."""
