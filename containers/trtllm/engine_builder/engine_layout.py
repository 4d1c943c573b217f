"""What a finished engine has on disk."""

from __future__ import annotations

from pathlib import Path

from container_program.errors import ExitCode, ProgramError
from engine_builder.spec import Plan


def check_engine(folder: Path, plan: Plan) -> None:
    """Raises ProgramError unless there is one engine file for each rank beside its config.json, and the
    visual engine where the plan builds one."""
    llm = _below(plan, "llm")
    expected = [f"{llm}/config.json", *(f"{llm}/rank{rank}.engine" for rank in range(plan.world_size))]
    missing = [name for name in expected if not _has_bytes(folder / name)]
    if missing:
        raise ProgramError(
            f"llm: trtllm-build ended without an error and without {', '.join(missing)}; parallelism is "
            "decided by the converter, so look at what it printed.",
            ExitCode.STEP,
        )
    more = sorted(path.name for path in (folder / llm).glob("rank*.engine"))[plan.world_size :]
    if more:
        raise ProgramError(
            f"llm: there are {plan.world_size + len(more)} ranks instead of {plan.world_size}.", ExitCode.STEP
        )
    vision = _below(plan, "vision")
    is_visual = any(step.name == "vision" for step in plan.steps)
    if is_visual and not any(_has_bytes(path) for path in (folder / vision).glob("*.engine")):
        raise ProgramError(
            f"vision: the builder ended without an error and without a *.engine in {vision}/.", ExitCode.STEP
        )


def _below(plan: Plan, place: str) -> str:
    return Path(plan.places[place]).relative_to(plan.directory).as_posix()


def _has_bytes(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
