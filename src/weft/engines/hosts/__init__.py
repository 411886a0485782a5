"""Workers that torchrun, srun or Kubernetes have started, on one host or on many."""
