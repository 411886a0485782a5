"""What verbs show: tables, live views, progress, files."""
