"""Native reductions of real runs: in shared memory, on devices, between hosts, or by a library."""
