/**
 * Requests to language and vision-language models on Triton over HTTP, and their answers: one builder and one reader for
 * every kind of model repository. Nothing here opens a connection.
 */
export { type GenerateOutput, parseGenerateResponse, parseStreamEvent } from "./answers.ts";
export { AnswerError, RequestError, type RequestErrorCode } from "./errors.ts";
export { takesStopWords } from "./flavours/index.ts";
export { buildGenerateRequest } from "./generate.ts";
export { isHttpUrl } from "./images.ts";
export { buildInferRequest, parseInferResponse } from "./infer.ts";
export {
  IMAGE_KINDS,
  type ImageKind,
  type ImageProfile,
  imageProfile,
  NAMED_PROFILES,
  type ProfileName,
  REQUEST_FLAVOURS,
  type RequestFlavour,
  type RequestProfile,
  requestProfile,
  type VisionModelType,
} from "./profile.ts";
export { wrapQuestion } from "./prompts.ts";
export type { GenerationRequest, ImageInput, PixelTensor, TritonRequest } from "./request.ts";
