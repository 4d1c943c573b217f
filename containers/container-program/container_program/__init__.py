"""What the programs inside the containers share: specs, errors, events, the engine store, GPUs, and the
model hub."""
