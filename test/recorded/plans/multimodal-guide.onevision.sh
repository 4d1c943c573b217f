# onevision: LLaVA-OneVision Qwen2 7B on 25.07 (TensorRT-LLM 0.20.0), engine b5afba1c1159 for A10G
# 8.6.

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

# 2. In the container, download: 16.1 GB of weights from the Hugging Face hub.
huggingface-cli download llava-hf/llava-onevision-qwen2-7b-ov-hf \
  --revision 0d50680527681998e456c7b78950205bedd8a068 \
  --include '*.safetensors' '*.json' merges.txt \
  --local-dir /store/weights/llava-onevision-qwen2-7b/0d50680527681998e456c7b78950205bedd8a068

# 3. In the container, convert: checkpoint of TensorRT-LLM.
python3 /app/examples/models/core/qwen/convert_checkpoint.py \
  --model_dir /store/weights/llava-onevision-qwen2-7b/0d50680527681998e456c7b78950205bedd8a068 \
  --output_dir /scratch/checkpoints/b5afba1c1159 \
  --dtype float16

# 4. In the container, llm: engine of the language model.
trtllm-build \
  --checkpoint_dir /scratch/checkpoints/b5afba1c1159 \
  --output_dir /store/engines/llava-onevision-qwen2-7b/b5afba1c1159/llm \
  --gemm_plugin float16 \
  --use_fused_mlp=enable \
  --max_batch_size 1 \
  --max_input_len 7500 \
  --max_seq_len 7600 \
  --max_multimodal_len 7300

# 5. In the container, vision: visual engine.
python3 /app/examples/models/core/multimodal/build_multimodal_engine.py \
  --model_path /store/weights/llava-onevision-qwen2-7b/0d50680527681998e456c7b78950205bedd8a068 \
  --model_type llava_onevision \
  --output_dir /store/engines/llava-onevision-qwen2-7b/b5afba1c1159/vision \
  --max_batch_size 16

# 6. In the container, check: golden prompt; the answer holds "coffee" or "espresso" or "cup".
curl -fsSL https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png \
  --create-dirs \
  --output /opt/engine-room/golden/coffee.png
PMIX_MCA_gds=hash python3 /app/examples/models/core/multimodal/run.py \
  --max_new_tokens 30 \
  --hf_model_dir /store/weights/llava-onevision-qwen2-7b/0d50680527681998e456c7b78950205bedd8a068 \
  --engine_dir /store/engines/llava-onevision-qwen2-7b/b5afba1c1159 \
  --image_path=/opt/engine-room/golden/coffee.png \
  --input_text 'What is shown in this image?' \
  --batch_size=1

# 7. In the container: the model repository: templates with the plan's values; other placeholders
# keep Triton's defaults. This project's image has the files that are copied from
# /opt/engine-room/models; their sources are in containers/cpu-models/models.
mkdir -p /model-repository
cp -r /app/all_models/multimodal/ensemble /model-repository/ensemble
mkdir -p /model-repository/ensemble/1
python3 /app/tools/fill_template.py -i /model-repository/ensemble/config.pbtxt logits_datatype:TYPE_FP32,triton_max_batch_size:1
cp -r /app/all_models/multimodal/multimodal_encoders /model-repository/multimodal_encoders
python3 /app/tools/fill_template.py -i /model-repository/multimodal_encoders/config.pbtxt encoder_input_features_data_type:TYPE_FP16,hf_model_path:/store/weights/llava-onevision-qwen2-7b/0d50680527681998e456c7b78950205bedd8a068,max_queue_delay_microseconds:20000,max_queue_size:0,multimodal_model_path:/store/engines/llava-onevision-qwen2-7b/b5afba1c1159/vision,triton_max_batch_size:1
mv /model-repository/multimodal_encoders/1/model.py /model-repository/multimodal_encoders/1/template_model.py
cp /opt/engine-room/models/encoders/several_pictures.py /model-repository/multimodal_encoders/1/model.py
cp -r /app/all_models/inflight_batcher_llm/postprocessing /model-repository/postprocessing
python3 /app/tools/fill_template.py -i /model-repository/postprocessing/config.pbtxt postprocessing_instance_count:1,tokenizer_dir:/store/weights/llava-onevision-qwen2-7b/0d50680527681998e456c7b78950205bedd8a068,triton_max_batch_size:1
cp -r /app/all_models/inflight_batcher_llm/preprocessing /model-repository/preprocessing
python3 /app/tools/fill_template.py -i /model-repository/preprocessing/config.pbtxt add_special_tokens:False,engine_dir:/store/engines/llava-onevision-qwen2-7b/b5afba1c1159/llm,max_num_images:1,max_queue_delay_microseconds:20000,max_queue_size:0,multimodal_model_path:/store/engines/llava-onevision-qwen2-7b/b5afba1c1159/vision,preprocessing_instance_count:1,tokenizer_dir:/store/weights/llava-onevision-qwen2-7b/0d50680527681998e456c7b78950205bedd8a068,triton_max_batch_size:1
printf %s $'{"maxFrames":16,"maxFramePixels":2073600,"maxTiles":16,"maxTokens":7299,"maxBytes":10485760,"maxImages":4,"maxPixels":40000000}\n' > /model-repository/preprocessing/1/preprocess.json
mv /model-repository/preprocessing/1/model.py /model-repository/preprocessing/1/template_model.py
cp /opt/engine-room/models/encoders/picture_preprocessing.py /model-repository/preprocessing/1/model.py
cp /opt/engine-room/models/encoders/image_address.py /model-repository/preprocessing/1/image_address.py
cp /opt/engine-room/models/encoders/image_input.py /model-repository/preprocessing/1/image_input.py
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm /model-repository/tensorrt_llm
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt batching_strategy:inflight_fused_batching,decoupled_mode:False,enable_chunked_context:False,enable_kv_cache_reuse:False,encoder_input_features_data_type:TYPE_FP16,engine_dir:/store/engines/llava-onevision-qwen2-7b/b5afba1c1159/llm,exclude_input_in_output:True,kv_cache_free_gpu_mem_fraction:0.47,logits_datatype:TYPE_FP32,max_beam_width:1,max_queue_delay_microseconds:0,max_queue_size:0,triton_backend:tensorrtllm,triton_max_batch_size:1
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm_bls /model-repository/tensorrt_llm_bls
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm_bls/config.pbtxt accumulate_tokens:False,bls_instance_count:1,decoupled_mode:False,logits_datatype:TYPE_FP32,multimodal_encoders_name:multimodal_encoders,tensorrt_llm_model_name:tensorrt_llm,triton_max_batch_size:1

# 8. In the container: the server, one rank; `pkill tritonserver` ends it.
PMIX_MCA_gds=hash mpirun \
  --allow-run-as-root \
  --bind-to none -n 1 /opt/tritonserver/bin/tritonserver \
  --model-repository=/model-repository \
  --http-port=8000 \
  --grpc-port=8001 \
  --metrics-port=8002 \
  --cuda-memory-pool-byte-size=0:300000000 \
  --disable-auto-complete-config \
  --exit-timeout-secs=30 &
until curl -sf http://localhost:8000/v2/health/ready; do sleep 2; done

# 9. A request; its answer holds "coffee" or "espresso" or "cup" (upper and lower case alike).
curl -sS http://localhost:8000/v2/models/ensemble/generate \
  --header 'content-type: application/json' \
  --data '{"text_input":"What is shown in this image?","max_tokens":30,"bad_words":"","stop_words":"","end_id":151645,"pad_id":151643,"top_k":1,"image_url_input":"https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png"}'
