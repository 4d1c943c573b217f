"""`engine_builder build`: from a spec to an engine in the store, or to weights only.

A build works on local scratch and copies the finished engine to the store.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from engine_room.engine_builder.copy_files import copy_files
from engine_room.engine_builder.spec import EngineBuildSpec, Plan, Step
from engine_room.engine_builder.steps import run_command
from engine_room.engine_builder.weights import (
    PresentWeights,
    are_lost,
    check_image_processor,
    complete_weights,
    weights_in_use,
)
from engine_room.shared.builds import Filled, Product, build_once, run_step
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter
from engine_room.shared.machine import Versions, VisibleGpu, check_gpus, check_versions
from engine_room.shared.manifest import remove_leftovers, store_of, temporary_folder
from engine_room.shared.processes import relocated
from engine_room.shared.store_locks import StoreLocks

_CHECK = "check"
_LAST_FETCHING_STEP = "download"


def build(spec: EngineBuildSpec, report: Reporter) -> None:
    """Returns when the engine, or the weights of a model without one, are complete in the store. Raises
    ProgramError, OSError, StoppedError."""
    if spec.plan is None:
        _build_weights(spec, report)
    else:
        _build_engine(spec, spec.plan, report)


def _build_weights(spec: EngineBuildSpec, report: Reporter) -> None:
    weights = complete_weights(spec.weights) or _fetched_weights(spec, report)
    report.event(
        "complete",
        f"{spec.model}: its weights are in {weights.directory}; it is served without an engine",
        directory=str(weights.directory),
        bytes=weights.bytes,
        isNew=weights.seconds > 0,
    )


def _fetched_weights(spec: EngineBuildSpec, report: Reporter) -> PresentWeights:
    with (
        StoreLocks(store_of(spec.weights.directory, "weights")) as locks,
        TemporaryDirectory() as work,
        weights_in_use(spec.weights, locks, Path(work), report) as present,
    ):
        return present


def _build_engine(spec: EngineBuildSpec, plan: Plan, report: Reporter) -> None:
    product = Product("engine", spec.model, plan.directory, plan.key, plan.key_fields, spec.release, spec.gpu)
    if are_lost(spec.weights) and product.complete() is not None:
        _fetched_weights(spec, report)

    def fill(folder: Path, machine: tuple[VisibleGpu, Versions], locks: StoreLocks) -> Filled:
        # Local disk.
        scratch = Path(plan.places["checkpoint"]).parent / plan.directory.name
        remove_leftovers(scratch)
        with (
            temporary_folder(scratch) as work,
            weights_in_use(spec.weights, locks, work, report) as weights,
        ):
            if spec.image_processor is not None:
                check_image_processor(weights.directory, spec.image_processor)
            seconds = defaultdict[str, float](float, {_LAST_FETCHING_STEP: round(weights.seconds, 1)})
            answer = _run_steps(spec, plan, work, seconds, report)
            files, seconds["copy"] = copy_files(work / "engine", folder, report)
        gpu, versions = machine
        return Filled(
            files,
            built_with={
                "tensorRtLlm": versions.tensor_rt_llm,
                "tensorRt": versions.tensor_rt,
                "driver": gpu.driver,
                "gpu": gpu.name,
            },
            fields={
                "model": spec.model,
                "worldSize": plan.world_size,
                "weights": {
                    "directory": str(weights.directory),
                    "source": dict(spec.weights.source_record),
                    "bytes": weights.bytes,
                },
                "golden": {"prompt": spec.golden.prompt, "answer": answer},
                "seconds": seconds,
            },
        )

    build_once(product, lambda: _checked_machine(spec, plan), fill, report)


def _checked_machine(spec: EngineBuildSpec, plan: Plan) -> tuple[VisibleGpu, Versions]:
    picture = Path(plan.places["goldenImage"])
    if spec.golden.image is not None and not picture.is_file():
        raise ProgramError(
            f"{picture}, which the golden question is about, is not in this image; use the project's own "
            "image.",
            ExitCode.WRONG_SPEC,
        )
    return check_gpus(spec.gpu, plan.world_size), check_versions(spec.release)


def _run_steps(
    spec: EngineBuildSpec, plan: Plan, work: Path, seconds: dict[str, float], report: Reporter
) -> str | None:
    """The engine in `work/engine`; returns the answer to the golden question, and adds to the seconds of each
    step."""
    folders = {
        plan.places["engine"]: work / "engine",
        plan.places["checkpoint"]: work / "checkpoint",
        plan.places["code"]: work / "code",
    }
    (work / "engine").mkdir()

    def run(step: Step) -> str:
        output, took = _run_step(step, folders, work, report)
        seconds[step.name] = round(seconds[step.name] + took, 1)
        return output

    steps = _steps_after_download(plan)
    for step in steps:
        if step.name != _CHECK:
            run(step)
    _check_engine(work / "engine", plan)
    # As large as the engine, no longer needed, and in the way of the copy.
    shutil.rmtree(work / "checkpoint", ignore_errors=True)
    answer: str | None = None
    for step in steps:
        if step.name == _CHECK:
            answer = _check_answer(spec, run(step), report)
    return answer


def _run_step(step: Step, folders: Mapping[str, Path], work: Path, report: Reporter) -> tuple[str, float]:
    """Returns the command's output and the seconds that it took."""
    argv = [relocated(word, folders) for word in step.argv]
    environment = {name: relocated(value, folders) for name, value in step.environment.items()}
    return run_step(
        step.name,
        step.summary,
        argv,
        work,
        lambda: run_command(step.name, argv, environment, work, report),
        report,
    )


def _steps_after_download(plan: Plan) -> tuple[Step, ...]:
    """Fetching is the builder's own work, see `weights`; its steps in the plan are for people to read."""
    names = [step.name for step in plan.steps]
    first = len(names) - names[::-1].index(_LAST_FETCHING_STEP) if _LAST_FETCHING_STEP in names else 0
    return plan.steps[first:]


def _check_answer(spec: EngineBuildSpec, output: str, report: Reporter) -> str:
    wanted = " or ".join(f"“{text}”" for text in spec.golden.answer_contains)
    answer = find_answer(output)
    if answer is None:
        raise ProgramError(
            "check: run.py printed no answer that can be found; use the image that the plan is for.",
            ExitCode.WRONG_ANSWER,
        )
    if not holds_one(answer, spec.golden.answer_contains):
        raise ProgramError(
            f"check: the engine answers “{answer}” to “{spec.golden.prompt}”, which must hold {wanted}; it "
            "is not kept. Look at quantization and weights.",
            ExitCode.WRONG_ANSWER,
        )
    report.event("check-passed", f"check: “{answer}” holds {wanted}", answer=answer)
    return answer


def _check_engine(folder: Path, plan: Plan) -> None:
    """Raises ProgramError unless there is one engine file for each rank beside its config.json, and the
    visual engine if the plan builds one."""
    llm = _below(plan, "llm")
    expected = [f"{llm}/config.json", *(f"{llm}/rank{rank}.engine" for rank in range(plan.world_size))]
    missing = [name for name in expected if not _has_bytes(folder / name)]
    if missing:
        raise ProgramError(
            f"llm: trtllm-build ended without an error and without {', '.join(missing)}; parallelism is "
            "decided by the converter, so look at its output.",
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


# examples/run.py prints `Output [Text 0 Beam 0]: "…"`; the multimodal run.py logs a line feed and `[A]:
# ['…']`, of 0.9 and 0.10 without the colon.
_ANSWER = re.compile(r"^(?:Output \[Text 0 Beam 0\]: |\[A\]:? )", re.MULTILINE)
# A line of a log follows it: `[07/15/2025-10:00:00] [TRT-LLM] [I] …` or `[TensorRT-LLM][INFO] …`; mpirun may
# put `[1,0]<stdout>:` before any.
_LOG_LINE = re.compile(r"^\[(?:TensorRT-LLM|TRT-LLM|\d\d/\d\d/\d{4}-)", re.MULTILINE)
_RANK = re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:\s?", re.MULTILINE)


def find_answer(output: str) -> str | None:
    """The text that the model gave; None if run.py printed none, which is a run.py of another kind."""
    plain = _RANK.sub("", output)
    start = _ANSWER.search(plain)
    if start is None:
        return None
    rest = plain[start.end() :]
    end = _LOG_LINE.search(rest)
    return rest[: end.start() if end else None].strip()


def holds_one(answer: str, wanted: Sequence[str]) -> bool:
    """Whether one of the words is in the answer, in upper or lower case."""
    folded = answer.casefold()
    return any(word.casefold() in folded for word in wanted)
