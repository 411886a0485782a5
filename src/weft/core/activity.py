"""What a worker's script can be doing: the words of timelines, traces and shares of time."""

COMPUTES = "compute"
READS = "input"
"""It waits for its own loader."""
WAITS = "wait"
"""It waits for other workers."""
REPORTS = "report"
"""It evaluates or saves a model for all."""
PAUSED = "pause"
"""The whole process stood still: it was stopped, or its machine was."""
ACTIVITIES = (COMPUTES, READS, WAITS, REPORTS, PAUSED)
SENDS = "send"
"""Its messages are on their way, whatever its script does meanwhile: only timelines know this word."""
