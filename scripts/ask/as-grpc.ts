/** The same question over gRPC, as a Python program with Triton's own client. */
import { UsageError } from "../errors.ts";
import { pythonImageReader, pythonPrint, pythonText, pythonValue } from "./as-python.ts";
import type { PreparedRequest } from "./prepared-request.ts";
import type { AskedImage } from "./question.ts";

/**
 * It asks the server for the datatypes and shapes of the model's inputs, as Triton's generate extension does, and leaves
 * out what is no input. A stream carries one answer as well as many, and is the only way to a decoupled model.
 *
 * @throws UsageError for a request to the gateway.
 */
export function asGrpc(request: PreparedRequest, images: readonly AskedImage[]): string {
  const { body, grpc, streamedText, stream, textPath } = request;
  if (grpc === null)
    throw new UsageError("The gateway speaks HTTP only; --as grpc is for --endpoint triton.");
  const { address, tritonModel } = grpc;
  const hasFiles = images.some(({ kind }) => kind === "file");
  const isCumulative = stream && streamedText === "cumulative";
  return [
    '# pip install "tritonclient[grpc]"',
    `import ${hasFiles ? "base64, " : ""}queue`,
    "import numpy as np",
    "import tritonclient.grpc as triton",
    "from tritonclient.utils import triton_to_np_dtype",
    "",
    ...(hasFiles ? pythonImageReader : []),
    `FIELDS = ${pythonValue(JSON.parse(body), images)}`,
    `client = triton.InferenceServerClient(${pythonText(address)})`,
    `described = client.get_model_metadata(${pythonText(tritonModel)})`,
    "inputs = []",
    "for one in described.inputs:",
    "    if one.name in FIELDS:",
    "        value = FIELDS[one.name]",
    "        values = value if isinstance(value, list) else [value]",
    "        values = [item.encode() if isinstance(item, str) else item for item in values]",
    "        shape = [1] * (len(one.shape) - 1) + [len(values)]",
    "        tensor = triton.InferInput(one.name, shape, one.datatype)",
    "        data = np.array(values, dtype=triton_to_np_dtype(one.datatype)).reshape(shape)",
    "        tensor.set_data_from_numpy(data)",
    "        inputs.append(tensor)",
    "",
    "answers = queue.Queue()",
    "client.start_stream(lambda result, error: answers.put((result, error)))",
    `client.async_stream_infer(${pythonText(tritonModel)}, inputs, enable_empty_final_response=True)`,
    ...(isCumulative ? ['shown = ""'] : []),
    "while True:",
    "    result, error = answers.get(timeout=600)",
    "    if error is not None:",
    "        raise SystemExit(str(error))",
    `    tensor = result.as_numpy(${pythonText(String(textPath[0]))})`,
    "    if tensor is not None and tensor.size > 0:",
    "        text = tensor.flatten()[0].decode()",
    ...pythonPrint(isCumulative ? "cumulative" : "delta").map((line) => `        ${line}`),
    '    if result.get_response().parameters["triton_final_response"].bool_param:',
    "        break",
    "",
    "print()",
    "client.stop_stream()",
    "",
  ].join("\n");
}
