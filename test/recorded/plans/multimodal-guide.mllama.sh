# mllama: Llama 3.2 11B Vision on 25.07 (TensorRT-LLM 0.20.0), engine 28790971b12b for L40S 8.9.

# 1. On a machine with L40S 8.9 and NVIDIA driver 575.51.03 or newer: the container that builds and
# serves.
docker run \
  --rm -it \
  --net host \
  --gpus all \
  --shm-size=2g \
  --ulimit memlock=-1 \
  --ulimit stack=67108864 \
  --volume /var/lib/engine-room/store:/store \
  --env HF_TOKEN \
  nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3 bash

# 2. In the container, download: 21.3 GB of weights from the Hugging Face hub; HF_TOKEN must hold a
# token.
huggingface-cli download meta-llama/Llama-3.2-11B-Vision \
  --revision 3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be \
  --include '*.safetensors' '*.json' \
  --exclude 'original/*' \
  --local-dir /store/weights/llama-3.2-11b-vision/3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be

# 3. In the container, convert: checkpoint of TensorRT-LLM.
python3 /app/examples/models/core/mllama/convert_checkpoint.py \
  --model_dir /store/weights/llama-3.2-11b-vision/3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be \
  --output_dir /scratch/checkpoints/28790971b12b \
  --dtype bfloat16

# 4. In the container, llm: engine of the language model.
trtllm-build \
  --checkpoint_dir /scratch/checkpoints/28790971b12b \
  --output_dir /store/engines/llama-3.2-11b-vision/28790971b12b/llm \
  --gemm_plugin auto \
  --max_batch_size 8 \
  --max_input_len 1024 \
  --max_seq_len 2048 \
  --max_num_tokens 4096 \
  --max_encoder_input_len 4100

# 5. In the container, vision: visual engine.
python3 /app/examples/models/core/multimodal/build_multimodal_engine.py \
  --model_path /store/weights/llama-3.2-11b-vision/3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be \
  --model_type mllama \
  --output_dir /store/engines/llama-3.2-11b-vision/28790971b12b/vision \
  --max_batch_size 8

# 6. In the container, check: golden prompt; the answer holds "coffee" or "espresso" or "cup".
curl -fsSL https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png \
  --create-dirs \
  --output /opt/engine-room/golden/coffee.png
PMIX_MCA_gds=hash python3 /app/examples/models/core/multimodal/run.py \
  --max_new_tokens 16 \
  --hf_model_dir /store/weights/llama-3.2-11b-vision/3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be \
  --engine_dir /store/engines/llama-3.2-11b-vision/28790971b12b \
  --image_path=/opt/engine-room/golden/coffee.png \
  --input_text '<|image|><|begin_of_text|>This picture shows' \
  --batch_size=1

# 7. In the container: the model repository: templates with the plan's values; other placeholders
# keep Triton's defaults.
mkdir -p /model-repository
cp -r /app/all_models/multimodal/ensemble /model-repository/ensemble
mkdir -p /model-repository/ensemble/1
python3 /app/tools/fill_template.py -i /model-repository/ensemble/config.pbtxt logits_datatype:TYPE_FP32,triton_max_batch_size:8
cp -r /app/all_models/multimodal/multimodal_encoders /model-repository/multimodal_encoders
python3 /app/tools/fill_template.py -i /model-repository/multimodal_encoders/config.pbtxt encoder_input_features_data_type:TYPE_BF16,hf_model_path:/store/weights/llama-3.2-11b-vision/3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be,max_queue_delay_microseconds:20000,max_queue_size:0,multimodal_model_path:/store/engines/llama-3.2-11b-vision/28790971b12b/vision,triton_max_batch_size:8
cp -r /app/all_models/inflight_batcher_llm/postprocessing /model-repository/postprocessing
python3 /app/tools/fill_template.py -i /model-repository/postprocessing/config.pbtxt postprocessing_instance_count:1,tokenizer_dir:/store/weights/llama-3.2-11b-vision/3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be,triton_max_batch_size:8
cp -r /app/all_models/inflight_batcher_llm/preprocessing /model-repository/preprocessing
python3 /app/tools/fill_template.py -i /model-repository/preprocessing/config.pbtxt add_special_tokens:True,engine_dir:/store/engines/llama-3.2-11b-vision/28790971b12b/llm,max_num_images:1,max_queue_delay_microseconds:20000,max_queue_size:0,multimodal_model_path:/store/engines/llama-3.2-11b-vision/28790971b12b/vision,preprocessing_instance_count:1,tokenizer_dir:/store/weights/llama-3.2-11b-vision/3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be,triton_max_batch_size:8
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm /model-repository/tensorrt_llm
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt batching_strategy:inflight_fused_batching,cross_kv_cache_fraction:0.5,decoupled_mode:False,enable_chunked_context:False,enable_kv_cache_reuse:False,encoder_input_features_data_type:TYPE_BF16,engine_dir:/store/engines/llama-3.2-11b-vision/28790971b12b/llm,exclude_input_in_output:True,kv_cache_free_gpu_mem_fraction:0.77,logits_datatype:TYPE_FP32,max_beam_width:1,max_queue_delay_microseconds:0,max_queue_size:0,triton_backend:tensorrtllm,triton_max_batch_size:8
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm_bls /model-repository/tensorrt_llm_bls
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm_bls/config.pbtxt accumulate_tokens:False,bls_instance_count:8,decoupled_mode:False,logits_datatype:TYPE_FP32,multimodal_encoders_name:multimodal_encoders,tensorrt_llm_model_name:tensorrt_llm,triton_max_batch_size:8

# 8. In the container: the server, one rank; `pkill tritonserver` ends it.
PMIX_MCA_gds=hash mpirun \
  --allow-run-as-root \
  --bind-to none -n 1 /opt/tritonserver/bin/tritonserver \
  --model-repository=/model-repository \
  --http-port=8000 \
  --grpc-port=8001 \
  --metrics-port=8002 \
  --cuda-memory-pool-byte-size=0:400000000 \
  --disable-auto-complete-config \
  --exit-timeout-secs=30 &
until curl -sf http://localhost:8000/v2/health/ready; do sleep 2; done

# 9. A request; its answer holds "coffee" or "espresso" or "cup" (upper and lower case alike).
curl -sS http://localhost:8000/v2/models/ensemble/generate \
  --header 'content-type: application/json' \
  --data '{"text_input":"<|image|>This picture shows","max_tokens":16,"bad_words":"","stop_words":"","end_id":128001,"pad_id":128004,"top_k":1,"image_url_input":"https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png"}'
