"""One thread for each process of tests, and screens that are alike."""

import os

# torch reads it when it is imported: models here are small, and spinning threads of two test processes would fight
os.environ.setdefault("OMP_NUM_THREADS", "1")
# the processes of parallel tests are given one, and tables would follow it
os.environ.pop("COLUMNS", None)
