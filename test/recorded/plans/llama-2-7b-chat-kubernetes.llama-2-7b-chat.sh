# llama-2-7b-chat: Llama 2 7B Chat on 25.07 (TensorRT-LLM 0.20.0), engine 935afaa63dc5 for A10G 8.6.

# 1. On a machine with A10G 8.6 and NVIDIA driver 575.51.03 or newer: the container that builds and
# serves.
docker run \
  --rm -it \
  --net host \
  --gpus all \
  --shm-size=2g \
  --ulimit memlock=-1 \
  --ulimit stack=67108864 \
  --volume /var/lib/engine-room/store:/store \
  nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3 bash

# 2. In the container, requirements: ModelScope's client.
pip install modelscope==1.40.2

# 3. In the container, download: 13.5 GB of weights from ModelScope.
modelscope download \
  --model shakechen/Llama-2-7b-chat-hf \
  --revision master \
  --include '*.safetensors' '*.json' tokenizer.model \
  --local_dir /store/weights/llama-2-7b-chat/modelscope-master

# 4. In the container, convert: checkpoint of TensorRT-LLM.
python3 /app/examples/models/core/llama/convert_checkpoint.py \
  --model_dir /store/weights/llama-2-7b-chat/modelscope-master \
  --output_dir /scratch/checkpoints/935afaa63dc5 \
  --dtype float16

# 5. In the container, llm: engine of the language model.
trtllm-build \
  --checkpoint_dir /scratch/checkpoints/935afaa63dc5 \
  --output_dir /store/engines/llama-2-7b-chat/935afaa63dc5/llm \
  --gemm_plugin float16 \
  --max_batch_size 64 \
  --max_input_len 2048 \
  --max_seq_len 2560

# 6. In the container, check: golden prompt; the answer holds "artificial intelligence" or
# "algorithms".
PMIX_MCA_gds=hash python3 /app/examples/run.py \
  --engine_dir /store/engines/llama-2-7b-chat/935afaa63dc5/llm \
  --max_output_len 100 \
  --tokenizer_dir /store/weights/llama-2-7b-chat/modelscope-master \
  --input_text 'What is machine learning?'

# 7. In the container: the model repository: templates with the plan's values; other placeholders
# keep Triton's defaults.
mkdir -p /model-repository
cp -r /app/all_models/inflight_batcher_llm/ensemble /model-repository/ensemble
python3 /app/tools/fill_template.py -i /model-repository/ensemble/config.pbtxt logits_datatype:TYPE_FP32,triton_max_batch_size:64
cp -r /app/all_models/inflight_batcher_llm/postprocessing /model-repository/postprocessing
python3 /app/tools/fill_template.py -i /model-repository/postprocessing/config.pbtxt postprocessing_instance_count:1,tokenizer_dir:/store/weights/llama-2-7b-chat/modelscope-master,triton_max_batch_size:64
cp -r /app/all_models/inflight_batcher_llm/preprocessing /model-repository/preprocessing
python3 /app/tools/fill_template.py -i /model-repository/preprocessing/config.pbtxt add_special_tokens:True,max_queue_delay_microseconds:600,max_queue_size:0,preprocessing_instance_count:1,tokenizer_dir:/store/weights/llama-2-7b-chat/modelscope-master,triton_max_batch_size:64
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm /model-repository/tensorrt_llm
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt batching_strategy:inflight_batching,decoupled_mode:False,enable_chunked_context:False,enable_kv_cache_reuse:False,encoder_input_features_data_type:TYPE_FP16,engine_dir:/store/engines/llama-2-7b-chat/935afaa63dc5/llm,exclude_input_in_output:True,kv_cache_free_gpu_mem_fraction:0.5,logits_datatype:TYPE_FP32,max_attention_window_size:2560,max_beam_width:1,max_queue_delay_microseconds:600,max_queue_size:0,max_tokens_in_paged_kv_cache:2560,triton_backend:tensorrtllm,triton_max_batch_size:64
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm_bls /model-repository/tensorrt_llm_bls
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm_bls/config.pbtxt accumulate_tokens:False,bls_instance_count:64,decoupled_mode:False,logits_datatype:TYPE_FP32,tensorrt_llm_model_name:tensorrt_llm,triton_max_batch_size:64

# 8. In the container: the server, one rank; `pkill tritonserver` ends it.
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

# 9. A request; its answer holds "artificial intelligence" or "algorithms" (upper and lower case
# alike).
curl -sS http://localhost:8000/v2/models/ensemble/generate \
  --header 'content-type: application/json' \
  --data '{"text_input":"What is machine learning?","max_tokens":100,"bad_words":"","stop_words":"","end_id":2,"pad_id":2,"top_k":1}'
