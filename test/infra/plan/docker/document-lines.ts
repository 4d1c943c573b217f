/** Every `docker run` of the walkthroughs that starts a server, and of the pages that they send their readers to. */
export const documentLines = {
  /** LLaVA-1.5-7b on Triton 25.07, step 4. */
  llava: String.raw`docker run --rm -it \
  --gpus all \
  --net host --ipc=host \
  --shm-size=2g --ulimit memlock=-1 --ulimit stack=67108864 \
  -e PMIX_MCA_gds=hash \
  -v /path/to/tensorrtllm_backend:/tensorrtllm_backend \
  -v /path/to/Llava-1.5-7b-hf:/llava-1.5-7b-hf \
  -v /path/to/engines:/engines \
  -v /path/to/tutorials:/tutorials \
  nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3`,

  /** Llama-2-7b, the tutorial of Triton: "Deploying with Triton CLI". */
  llamaCli: String.raw`docker run --rm -it --net host --shm-size=2g \
    --ulimit memlock=-1 --ulimit stack=67108864 --gpus all \
    -v </path/to/Llama2/repo>:/root/.cache/huggingface \
    -v </path/to/engines>:/engines \
    nvcr.io/nvidia/tritonserver:<xx.yy>-trtllm-python-py3`,

  /** The same: "Deploying with Triton Inference Server". The walkthrough on Kubernetes names it as its source. */
  llama: String.raw`docker run --rm -it --net host --shm-size=2g \
    --ulimit memlock=-1 --ulimit stack=67108864 --gpus all \
    -v </path/to/tensorrtllm_backend>:/tensorrtllm_backend \
    -v </path/to/Llama2/repo>:/Llama-2-7b-hf \
    -v </path/to/engines>:/engines \
    nvcr.io/nvidia/tritonserver:<xx.yy>-trtllm-python-py3`,

  /** Five models of the multimodal guide, with NVIDIA's image. */
  multimodal: String.raw`docker run --rm -ti --net=host -v ${"`pwd`"}:/mnt -w /mnt --gpus all nvcr.io/nvidia/tritonserver:\<yy.mm\>-trtllm-python-py3 bash`,

  /** The same, with the user's own image. */
  multimodalOwnImage: "docker run --rm -ti --net=host -v `pwd`:/mnt -w /mnt --gpus all triton_trt_llm",

  /**
   * "Launch Triton TensorRT-LLM container" of tensorrtllm_backend's README, which the walkthrough of gpt2-medium links; it has
   * no line of its own (https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.11.0/README.md).
   */
  backendReadme: String.raw`docker run --rm -it --net host --shm-size=2g \
    --ulimit memlock=-1 --ulimit stack=67108864 --gpus all \
    -v </path/to/tensorrtllm_backend>:/tensorrtllm_backend \
    -v </path/to/engines>:/engines \
    nvcr.io/nvidia/tritonserver:24.07-trtllm-python-py3`,
} as const;

export type DocumentLine = keyof typeof documentLines;
