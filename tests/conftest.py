"""Lets every test import tests/worlds.py, whichever folder it is in."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
