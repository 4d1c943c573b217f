/**
 * Requests to language and vision-language models on Triton over HTTP, and their answers: one builder and one reader for
 * every kind of model repository. Nothing here opens a connection.
 */
export { refuseMissingOptions, takesSeed, takesStopWords } from "./flavours.ts";
export { buildGenerateRequest, type GenerateOutput, parseGenerateResponse } from "./generate.ts";
export { checkedPictures, isHttpUrl, wrapQuestion } from "./images.ts";
export {
  type ImageProfile,
  imageProfile,
  type RequestFlavour,
  type RequestProfile,
  requestProfile,
  requestProfileSchema,
  type VisionModelType,
} from "./profile.ts";
export {
  AnswerError,
  type GenerationRequest,
  type ImageInput,
  RequestError,
  type Sampling,
  type TritonRequest,
} from "./request.ts";
