# llava: LLaVA-1.5 7B on 25.07 (TensorRT-LLM 0.20.0), engine 9df37b0ad9f7 for A10G 8.6.

# 1. On a machine with A10G 8.6 and NVIDIA driver 575.51.03 or newer: the container that builds and
# serves.
docker run \
  --rm -it \
  --net host \
  --gpus all \
  --shm-size=2g \
  --ulimit memlock=-1 \
  --ulimit stack=67108864 \
  --volume llava-1.5-store:/store \
  nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3 bash

# 2. In the container: files that NVIDIA's image lacks; this project's image has them, patched where
# containers/trtllm/patches says so.
git init /tutorials
git -C /tutorials fetch --depth 1 https://github.com/triton-inference-server/tutorials.git 17331012af74eab68ad7c86d8a4ae494272ca4f7
git -C /tutorials checkout --detach FETCH_HEAD

# 3. In the container, download: 14.1 GB of weights from the Hugging Face hub.
huggingface-cli download llava-hf/llava-1.5-7b-hf \
  --revision b234b804b114d9e37bb655e11cbbb5f5e971b7a9 \
  --include '*.safetensors' '*.json' tokenizer.model \
  --local-dir /store/weights/llava-1.5-7b/b234b804b114d9e37bb655e11cbbb5f5e971b7a9

# 4. In the container, convert: checkpoint of TensorRT-LLM.
python3 /app/examples/models/core/llama/convert_checkpoint.py \
  --model_dir /store/weights/llava-1.5-7b/b234b804b114d9e37bb655e11cbbb5f5e971b7a9 \
  --output_dir /scratch/checkpoints/9df37b0ad9f7 \
  --dtype float16

# 5. In the container, llm: engine of the language model.
trtllm-build \
  --checkpoint_dir /scratch/checkpoints/9df37b0ad9f7 \
  --output_dir /store/engines/llava-1.5-7b/9df37b0ad9f7/llm \
  --gemm_plugin float16 \
  --use_fused_mlp=enable \
  --max_batch_size 1 \
  --max_input_len 2048 \
  --max_seq_len 2560 \
  --max_multimodal_len 576

# 6. In the container, vision: visual engine.
python3 /app/examples/models/core/multimodal/build_multimodal_engine.py \
  --model_path /store/weights/llava-1.5-7b/b234b804b114d9e37bb655e11cbbb5f5e971b7a9 \
  --model_type llava \
  --output_dir /store/engines/llava-1.5-7b/9df37b0ad9f7/vision \
  --max_batch_size 1

# 7. In the container, check: golden prompt; the answer holds "coffee" or "espresso" or "cup".
curl -fsSL https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png \
  --create-dirs \
  --output /opt/engine-room/golden/coffee.png
PMIX_MCA_gds=hash python3 /app/examples/models/core/multimodal/run.py \
  --max_new_tokens 30 \
  --hf_model_dir /store/weights/llava-1.5-7b/b234b804b114d9e37bb655e11cbbb5f5e971b7a9 \
  --engine_dir /store/engines/llava-1.5-7b/9df37b0ad9f7 \
  --image_path=/opt/engine-room/golden/coffee.png \
  --input_text $'\n What is shown in this picture?' \
  --batch_size=1

# 8. In the container: the model repository: templates with the plan's values; other placeholders
# keep Triton's defaults.
mkdir -p /model-repository
cp -r /tutorials/Popular_Models_Guide/Llava1.5/model_repository/llava-1.5 /model-repository/llava-1.5
cp -r /tutorials/Popular_Models_Guide/Llava1.5/model_repository/tensorrt_llm /model-repository/tensorrt_llm
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt enable_chunked_context:False,enable_kv_cache_reuse:False,engine_dir:/store/engines/llava-1.5-7b/9df37b0ad9f7/llm,kv_cache_free_gpu_mem_fraction:0.69
cp -r /tutorials/Popular_Models_Guide/Llava1.5/model_repository/vision_encoder /model-repository/vision_encoder

# 9. In the container: the server, one rank; `pkill tritonserver` ends it.
HF_LOCATION=/store/weights/llava-1.5-7b/b234b804b114d9e37bb655e11cbbb5f5e971b7a9 PMIX_MCA_gds=hash TRT_ENGINE_LOCATION=/store/engines/llava-1.5-7b/9df37b0ad9f7/vision/model.engine mpirun \
  --allow-run-as-root \
  --bind-to none -n 1 /opt/tritonserver/bin/tritonserver \
  --model-repository=/model-repository \
  --http-port=8000 \
  --grpc-port=8001 \
  --metrics-port=8002 \
  --disable-auto-complete-config \
  --exit-timeout-secs=30 &
until curl -sf http://localhost:8000/v2/health/ready; do sleep 2; done

# 10. A request; its answer holds "coffee" or "espresso" or "cup" (upper and lower case alike).
curl -sS http://localhost:8000/v2/models/llava-1.5/generate \
  --header 'content-type: application/json' \
  --data '{"prompt":"USER: <image>\nQuestion: What is shown in this picture? Answer:","image":"https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png","max_tokens":30,"temperature":0,"top_k":1}'
