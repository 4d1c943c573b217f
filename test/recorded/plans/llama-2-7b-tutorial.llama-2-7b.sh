# llama-2-7b: Llama 2 7B on 25.07 (TensorRT-LLM 0.20.0), engine 3758ec41dacc for A10G 8.6.

# 1. On a machine with A10G 8.6 and NVIDIA driver 575.51.03 or newer: the container that builds and
# serves.
docker run \
  --rm -it \
  --net host \
  --gpus '"device=0"' \
  --shm-size=2g \
  --ulimit memlock=-1 \
  --ulimit stack=67108864 \
  --volume llama-2-7b-tutorial-store:/store \
  --env HF_TOKEN \
  nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3 bash

# 2. In the container, download: 13.5 GB of weights from the Hugging Face hub; HF_TOKEN must hold a
# token.
huggingface-cli download meta-llama/Llama-2-7b-hf \
  --revision 01c7f73d771dfac7d292323805ebc428287df4f9 \
  --include '*.safetensors' '*.json' tokenizer.model \
  --local-dir /store/weights/llama-2-7b/01c7f73d771dfac7d292323805ebc428287df4f9

# 3. In the container, convert: checkpoint of TensorRT-LLM.
python3 /app/examples/models/core/llama/convert_checkpoint.py \
  --model_dir /store/weights/llama-2-7b/01c7f73d771dfac7d292323805ebc428287df4f9 \
  --output_dir /scratch/checkpoints/3758ec41dacc \
  --dtype float16

# 4. In the container, llm: engine of the language model.
trtllm-build \
  --checkpoint_dir /scratch/checkpoints/3758ec41dacc \
  --output_dir /store/engines/llama-2-7b/3758ec41dacc/llm \
  --gemm_plugin float16 \
  --max_batch_size 4 \
  --max_input_len 2048 \
  --max_seq_len 2560

# 5. In the container, check: golden prompt; the answer holds "learn" or "data" or "artificial
# intelligence".
PMIX_MCA_gds=hash python3 /app/examples/run.py \
  --engine_dir /store/engines/llama-2-7b/3758ec41dacc/llm \
  --max_output_len 50 \
  --tokenizer_dir /store/weights/llama-2-7b/01c7f73d771dfac7d292323805ebc428287df4f9 \
  --input_text 'What is ML?'

# 6. In the container: the model repository: templates with the plan's values; other placeholders
# keep Triton's defaults.
mkdir -p /model-repository
cp -r /app/all_models/inflight_batcher_llm/ensemble /model-repository/ensemble
python3 /app/tools/fill_template.py -i /model-repository/ensemble/config.pbtxt logits_datatype:TYPE_FP32,triton_max_batch_size:4
cp -r /app/all_models/inflight_batcher_llm/postprocessing /model-repository/postprocessing
python3 /app/tools/fill_template.py -i /model-repository/postprocessing/config.pbtxt postprocessing_instance_count:1,tokenizer_dir:/store/weights/llama-2-7b/01c7f73d771dfac7d292323805ebc428287df4f9,triton_max_batch_size:4
cp -r /app/all_models/inflight_batcher_llm/preprocessing /model-repository/preprocessing
python3 /app/tools/fill_template.py -i /model-repository/preprocessing/config.pbtxt add_special_tokens:True,max_queue_delay_microseconds:10000,max_queue_size:0,preprocessing_instance_count:1,tokenizer_dir:/store/weights/llama-2-7b/01c7f73d771dfac7d292323805ebc428287df4f9,triton_max_batch_size:4
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm /model-repository/tensorrt_llm
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt batching_strategy:inflight_fused_batching,decoupled_mode:False,enable_chunked_context:False,enable_kv_cache_reuse:True,encoder_input_features_data_type:TYPE_FP16,engine_dir:/store/engines/llama-2-7b/3758ec41dacc/llm,exclude_input_in_output:False,kv_cache_free_gpu_mem_fraction:0.9,logits_datatype:TYPE_FP32,max_beam_width:1,max_queue_delay_microseconds:10000,max_queue_size:0,triton_backend:tensorrtllm,triton_max_batch_size:4
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm_bls /model-repository/tensorrt_llm_bls
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm_bls/config.pbtxt accumulate_tokens:False,bls_instance_count:4,decoupled_mode:False,logits_datatype:TYPE_FP32,tensorrt_llm_model_name:tensorrt_llm,triton_max_batch_size:4

# 7. In the container: the server, one rank; `pkill tritonserver` ends it.
PMIX_MCA_gds=hash mpirun \
  --allow-run-as-root \
  --bind-to none -n 1 /opt/tritonserver/bin/tritonserver \
  --model-repository=/model-repository \
  --http-port=8000 \
  --grpc-port=8001 \
  --metrics-port=8002 \
  --disable-auto-complete-config \
  --exit-timeout-secs=30 &
until curl -sf http://localhost:8000/v2/health/ready; do sleep 2; done

# 8. A request; its answer holds "learn" or "data" or "artificial intelligence" (upper and lower
# case alike).
curl -sS http://localhost:8000/v2/models/ensemble/generate \
  --header 'content-type: application/json' \
  --data '{"text_input":"What is ML?","max_tokens":50,"bad_words":"","stop_words":"","end_id":2,"pad_id":2,"top_k":1}'
