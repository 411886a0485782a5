"""Lets every test import tests/support/simulated/worlds.py, whichever folder it is in; one thread for each process of tests."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# torch reads it when it is imported: models here are small, and spinning threads of two test processes would fight
os.environ.setdefault("OMP_NUM_THREADS", "1")
# the processes of parallel tests are given one, and tables would follow it
os.environ.pop("COLUMNS", None)
