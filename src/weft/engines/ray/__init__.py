"""Workers on a Ray cluster. Only the porter, a process of its own, and what it starts there import Ray."""
