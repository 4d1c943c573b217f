#!/bin/sh
# NVIDIA's prints a banner, and runs the command.
echo "== Triton Inference Server =="
exec "$@"
