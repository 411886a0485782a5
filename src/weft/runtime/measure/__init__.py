"""What a worker process observes of itself: its time, its bytes, its pauses, its trace."""
