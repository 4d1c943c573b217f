/** The Triton models of this project that are written in Python, and the modules of each. */

/** Where the modules lie, relative to the project's root; images have the folder's content in /opt/engine-room/models. */
export const PYTHON_MODELS = "containers/cpu-models/models";

/** What both encoders share: reading of requests and parameters, and the choice of what computes. */
const ENCODER_MODULES = ["own_session", "parameters", "request_rows", "tower", "tower_model"];

/** Folder, the module that Triton loads as `model.py`, and those that it imports. */
const MODULES = {
  ensemble: { folder: "ensemble", model: "model", others: ["generation", "llama_server", "word_ban"] },
  text_encoder: {
    folder: "encoders",
    model: "text_encoder",
    others: ["sentence_encoder", ...ENCODER_MODULES],
  },
  vision_encoder: {
    folder: "encoders",
    model: "vision_encoder",
    others: ["image_input", ...ENCODER_MODULES],
  },
} as const;

export type PythonModelName = keyof typeof MODULES;

/** The Python files of a model: path below its folder in a repository to path below {@link PYTHON_MODELS}. */
export function pythonModelFiles(name: PythonModelName): Readonly<Record<string, string>> {
  const { folder, model, others } = MODULES[name];
  return Object.fromEntries([
    ["1/model.py", `${folder}/${model}.py`],
    ...others.map((module) => [`1/${module}.py`, `${folder}/${module}.py`]),
  ]);
}
