"""Facts of a run made visible: metrics, progress, reports."""
