"""The command that starts tritonserver with all its ranks, as NVIDIA's launch_triton_server.py makes it.

The script itself returns while the servers run, so a container that has it as its command ends. Its line is
made here instead, with the same arguments for each rank in every release from TensorRT-LLM 0.8 to 1.2, and
four differences: the time-out of an exit is written out, shared memory is named after this server, ranks are
not bound to cores, and nothing is written twice.
https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.19.0/scripts/launch_triton_server.py
https://github.com/NVIDIA/TensorRT-LLM/blob/0a2e2c1f1268b34586393794045691b666ba28be/triton_backend/scripts/launch_triton_server.py
"""

from __future__ import annotations

import argparse
import hashlib
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from container_program.errors import ProgramError
from triton_entrypoint.spec import FileRepository, ServerSpec, TemplateRepository

TRITONSERVER = Path("/opt/tritonserver/bin/tritonserver")


@dataclass(frozen=True)
class ServerOptions:
    """What the command line of this program says about the server."""

    tritonserver: Path
    # How long requests in flight may take to end after SIGTERM.
    exit_timeout_seconds: int


class _ScriptArguments(argparse.ArgumentParser):
    """Arguments of launch_triton_server.py that a plan may use."""

    def __init__(self) -> None:
        super().__init__(prog="launch_triton_server.py", add_help=False, allow_abbrev=False)
        self.add_argument("--world_size", type=int, default=1)
        self.add_argument("--model_repo", required=True)
        for protocol, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
            self.add_argument(f"--{protocol}_port", type=int, default=port)
        self.add_argument("--tensorrt_llm_model_name", default="tensorrt_llm")
        self.add_argument("--multimodal_gpu0_cuda_mem_pool_bytes", type=int, default=0)
        self.add_argument("--oversubscribe", action="store_true")
        self.add_argument("--no-mpi", action="store_true")
        self.add_argument("--trtllm_llmapi_launch", action="store_true")

    def error(self, message: str) -> NoReturn:
        raise ProgramError(
            f"{self.prog} is planned with arguments that this image does not know: {message}; use the image "
            "and the description of one version of the project."
        )


def shared_memory_prefix(model: str) -> str:
    """Begins the names of this server's regions in /dev/shm: two servers never share one, and what a killed
    server of the same container or pod left can be told from others'."""
    digest = hashlib.sha256(f"{socket.gethostname()}/{model}".encode()).hexdigest()
    return f"engine_room_{digest[:16]}_"


def rank_marker(prefix: str, rank: int) -> str:
    """An argument that the tritonserver of this rank has and no other process."""
    return f"--backend-config=python,shm-region-prefix-name={prefix}rank{rank}_"


def server_command(spec: ServerSpec, options: ServerOptions) -> list[str]:
    """Arguments of the process to start. Raises ProgramError for arguments of the plan that don't go
    together."""
    prefix = shared_memory_prefix(spec.model)
    if isinstance(spec.repository, FileRepository):
        return _encoders_command(spec, spec.repository, options, prefix)
    return _model_command(spec.repository, options, prefix)


def _encoders_command(
    spec: ServerSpec, repository: FileRepository, options: ServerOptions, prefix: str
) -> list[str]:
    command = _tritonserver(options, repository.path)
    if spec.gpu is None:
        command.append("--allow-gpu-metrics=false")
    return [*command, *_common(prefix, 0)]


def _model_command(repository: TemplateRepository, options: ServerOptions, prefix: str) -> list[str]:
    plan = _ScriptArguments().parse_args(repository.launch_arguments)
    if plan.world_size != repository.world_size or Path(plan.model_repo) != repository.path:
        raise ProgramError(
            f"The plan has {repository.world_size} ranks and its repository in {repository.path}, and starts "
            f"{plan.world_size} with {plan.model_repo}; make the plan anew."
        )
    ranks = [_rank_command(plan, rank, repository, options, prefix) for rank in range(plan.world_size)]
    if plan.no_mpi:
        if len(ranks) > 1:
            raise ProgramError(f"{len(ranks)} ranks need MPI, and the plan starts them with --no-mpi.")
        return ranks[0]
    # Open MPI binds one or two ranks to a core each otherwise, with all threads and Python models of their
    # servers, and every server of a machine to the same ones.
    command = ["mpirun", "--allow-run-as-root", "--bind-to", "none"]
    command += ["--oversubscribe"] if plan.oversubscribe else []
    for rank, arguments in enumerate(ranks):
        command += [*([":"] if rank > 0 else []), "-n", "1", *arguments]
    return command


def _rank_command(
    plan: argparse.Namespace, rank: int, repository: TemplateRepository, options: ServerOptions, prefix: str
) -> list[str]:
    command = ["trtllm-llmapi-launch"] if plan.trtllm_llmapi_launch else []
    command += _tritonserver(options, repository.path)
    command += [
        f"--grpc-port={plan.grpc_port}",
        f"--http-port={plan.http_port}",
        f"--metrics-port={plan.metrics_port}",
    ]
    if rank > 0:
        # Only the first rank has tokenizers and takes requests.
        names = plan.tensorrt_llm_model_name.split(",")
        command += ["--model-control-mode=explicit", *(f"--load-model={name}" for name in names)]
    elif plan.multimodal_gpu0_cuda_mem_pool_bytes != 0:
        command.append(f"--cuda-memory-pool-byte-size=0:{plan.multimodal_gpu0_cuda_mem_pool_bytes}")
    return [*command, *_common(prefix, rank)]


def _tritonserver(options: ServerOptions, repository: Path) -> list[str]:
    return [
        str(options.tritonserver),
        f"--model-repository={repository}",
        f"--exit-timeout-secs={options.exit_timeout_seconds}",
    ]


def _common(prefix: str, rank: int) -> list[str]:
    return ["--disable-auto-complete-config", rank_marker(prefix, rank)]
