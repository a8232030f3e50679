"""The PyTorch side of Muster: from where the pods landed to rank order and NCCL settings."""
