"""`encoder_builder build`: from a spec to graphs and plans in the store."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from engine_room.encoder_builder.own_steps import PROGRAM, parse_step, run_own_step
from engine_room.encoder_builder.spec import STEP_NAMES, EncoderBuildSpec, EncoderModel, Step
from engine_room.encoder_builder.trtexec import run_trtexec
from engine_room.shared.builds import Filled, Product, build_once, run_step
from engine_room.shared.events import Reporter
from engine_room.shared.machine import VisibleGpu, check_gpus, check_triton
from engine_room.shared.manifest import stored_files
from engine_room.shared.processes import relocated
from engine_room.shared.store_locks import StoreLocks

# They decide about numbers.
_PACKAGES = ("numpy", "onnx", "onnxruntime", "tokenizers", "pillow")


def build(spec: EncoderBuildSpec, report: Reporter) -> None:
    """Returns when the encoders are complete in the store. Raises ProgramError, OSError, StoppedError."""
    plan = spec.plan
    product = Product(
        "encoders", "encoders", plan.directory, plan.key, plan.key_fields, spec.release, spec.gpu
    )

    def fill(folder: Path, gpu: VisibleGpu | None, locks: StoreLocks) -> Filled:
        # A mistake in any model shows before a GPU works for one.
        planned = [(model, step) for model in plan.models for step in model.steps]
        planned.sort(key=lambda one: STEP_NAMES.index(one[1].name))
        steps = [_run(*one, plan.directory, folder, locks, report) for one in planned]
        return Filled(
            stored_files(folder),
            built_with={
                **{name: metadata.version(name) for name in _PACKAGES},
                "driver": None if gpu is None else gpu.driver,
            },
            fields={"steps": steps},
        )

    build_once(product, lambda: _checked_machine(spec), fill, report)


def _checked_machine(spec: EncoderBuildSpec) -> VisibleGpu | None:
    check_triton(spec.release, is_needed=spec.gpu is not None)
    return None if spec.gpu is None else check_gpus(spec.gpu, 1)


def _run(
    model: EncoderModel, step: Step, directory: Path, folder: Path, locks: StoreLocks, report: Reporter
) -> dict[str, object]:
    """Runs a step with the plan's `directory` moved to `folder`, and returns its facts for the manifest."""
    argv = [relocated(word, {str(directory): folder}) for word in step.argv]
    (folder / model.name).mkdir(exist_ok=True)

    def work() -> dict[str, object]:
        own = len(PROGRAM)
        if tuple(argv[:own]) == PROGRAM:
            return run_own_step(parse_step(argv[own:]), report, locks)
        return run_trtexec(argv, report)

    facts, seconds = run_step(
        step.name, f"of {model.encoder}", argv, folder / model.name, work, report, model=model.name
    )
    return {"model": model.name, "step": step.name, "seconds": seconds, **facts}
