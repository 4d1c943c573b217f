# vila: VILA 1.5 3B on 25.07 (TensorRT-LLM 0.20.0), engine 9bbd2bf96570 for A10G 8.6.

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

# 2. In the container, download: 6.2 GB of weights from the Hugging Face hub.
huggingface-cli download Efficient-Large-Model/VILA1.5-3b \
  --revision 42d1dda6807cc521ef27674ca2ae157539d17026 \
  --include '*.safetensors' '*.json' '*.model' \
  --local-dir /store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026

# 3. In the container, requirements: Python packages of the model.
pip install \
  --no-deps 's2wrapper @ git+https://github.com/bfshi/scaling_on_scales.git@9c008a37540e761f53574b488979db6e49a64312'

# 4. In the container, requirements: folder for the model's source code.
git init /store/code/VILA-ec7fb2c26492

# 5. In the container, requirements: the model's source code.
git -C /store/code/VILA-ec7fb2c26492 fetch \
  --depth 1 https://github.com/Efficient-Large-Model/VILA.git ec7fb2c264920bf004fd9fa37f1ec36ea0942db5

# 6. In the container, requirements: its files.
git -C /store/code/VILA-ec7fb2c26492 checkout \
  --detach FETCH_HEAD

# 7. In the container, requirements: a line of it that the image's packages don't go with.
sed -i 's/^import deepspeed.comm as dist$/import torch.distributed as dist/' /store/code/VILA-ec7fb2c26492/llava/train/sequence_parallel/globals.py

# 8. In the container, requirements: a line of it that the image's packages don't go with.
sed -i 's/no_init_weights(_enable=True)/no_init_weights()/' /store/code/VILA-ec7fb2c26492/llava/model/llava_arch.py

# 9. In the container, requirements: a line of it that the image's packages don't go with.
sed -i '/^from .intern_encoder import InternVisionTower$/d' /store/code/VILA-ec7fb2c26492/llava/model/multimodal_encoder/builder.py

# 10. In the container, convert: checkpoint of TensorRT-LLM.
PYTHONPATH=/store/code/VILA-ec7fb2c26492 python3 /app/examples/models/core/llama/convert_checkpoint.py \
  --model_dir /store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026 \
  --output_dir /scratch/checkpoints/9bbd2bf96570 \
  --dtype float16

# 11. In the container, llm: engine of the language model.
trtllm-build \
  --checkpoint_dir /scratch/checkpoints/9bbd2bf96570 \
  --output_dir /store/engines/vila1.5-3b/9bbd2bf96570/llm \
  --gemm_plugin float16 \
  --use_fused_mlp=enable \
  --max_batch_size 8 \
  --max_input_len 2048 \
  --max_seq_len 2560 \
  --max_multimodal_len 6272

# 12. In the container, vision: visual engine.
PYTHONPATH=/store/code/VILA-ec7fb2c26492 python3 /app/examples/models/core/multimodal/build_multimodal_engine.py \
  --model_path /store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026 \
  --model_type vila \
  --vila_path /store/code/VILA-ec7fb2c26492 \
  --output_dir /store/engines/vila1.5-3b/9bbd2bf96570/vision \
  --max_batch_size 32

# 13. In the container, check: golden prompt; the answer holds "coffee" or "espresso" or "cup".
curl -fsSL https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png \
  --create-dirs \
  --output /opt/engine-room/golden/coffee.png
PMIX_MCA_gds=hash PYTHONPATH=/store/code/VILA-ec7fb2c26492 python3 /app/examples/models/core/multimodal/run.py \
  --max_new_tokens 68 \
  --hf_model_dir /store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026 \
  --engine_dir /store/engines/vila1.5-3b/9bbd2bf96570 \
  --image_path=/opt/engine-room/golden/coffee.png \
  --input_text $'<image>\n Please elaborate what you see in the images?' \
  --batch_size=1

# 14. In the container: the model repository: templates with the plan's values; other placeholders
# keep Triton's defaults. This project's image has the files that are copied from
# /opt/engine-room/models; their sources are in containers/cpu-models/models.
mkdir -p /model-repository
cp -r /app/all_models/multimodal/ensemble /model-repository/ensemble
mkdir -p /model-repository/ensemble/1
python3 /app/tools/fill_template.py -i /model-repository/ensemble/config.pbtxt logits_datatype:TYPE_FP32,triton_max_batch_size:8
cp -r /app/all_models/multimodal/multimodal_encoders /model-repository/multimodal_encoders
python3 /app/tools/fill_template.py -i /model-repository/multimodal_encoders/config.pbtxt encoder_input_features_data_type:TYPE_FP16,hf_model_path:/store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026,max_queue_delay_microseconds:20000,max_queue_size:0,multimodal_model_path:/store/engines/vila1.5-3b/9bbd2bf96570/vision,triton_max_batch_size:8
mv /model-repository/multimodal_encoders/1/model.py /model-repository/multimodal_encoders/1/template_model.py
cp /opt/engine-room/models/encoders/several_pictures.py /model-repository/multimodal_encoders/1/model.py
cp -r /app/all_models/inflight_batcher_llm/postprocessing /model-repository/postprocessing
python3 /app/tools/fill_template.py -i /model-repository/postprocessing/config.pbtxt postprocessing_instance_count:1,tokenizer_dir:/store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026/llm,triton_max_batch_size:8
cp -r /app/all_models/inflight_batcher_llm/preprocessing /model-repository/preprocessing
python3 /app/tools/fill_template.py -i /model-repository/preprocessing/config.pbtxt add_special_tokens:True,engine_dir:/store/engines/vila1.5-3b/9bbd2bf96570/llm,max_num_images:4,max_queue_delay_microseconds:20000,max_queue_size:0,multimodal_model_path:/store/engines/vila1.5-3b/9bbd2bf96570/vision,preprocessing_instance_count:1,tokenizer_dir:/store/weights/vila1.5-3b/42d1dda6807cc521ef27674ca2ae157539d17026/llm,triton_max_batch_size:8
printf %s $'{"cropSize":384,"mean":[0.5,0.5,0.5],"std":[0.5,0.5,0.5],"maxBytes":10485760,"maxImages":4,"maxPixels":40000000}\n' > /model-repository/preprocessing/1/preprocess.json
mv /model-repository/preprocessing/1/model.py /model-repository/preprocessing/1/template_model.py
cp /opt/engine-room/models/encoders/picture_preprocessing.py /model-repository/preprocessing/1/model.py
cp /opt/engine-room/models/encoders/image_address.py /model-repository/preprocessing/1/image_address.py
cp /opt/engine-room/models/encoders/image_input.py /model-repository/preprocessing/1/image_input.py
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm /model-repository/tensorrt_llm
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt batching_strategy:inflight_fused_batching,decoupled_mode:False,enable_chunked_context:False,enable_kv_cache_reuse:False,encoder_input_features_data_type:TYPE_FP16,engine_dir:/store/engines/vila1.5-3b/9bbd2bf96570/llm,exclude_input_in_output:True,kv_cache_free_gpu_mem_fraction:0.77,logits_datatype:TYPE_FP32,max_beam_width:1,max_queue_delay_microseconds:0,max_queue_size:0,triton_backend:tensorrtllm,triton_max_batch_size:8
cp -r /app/all_models/inflight_batcher_llm/tensorrt_llm_bls /model-repository/tensorrt_llm_bls
python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm_bls/config.pbtxt accumulate_tokens:False,bls_instance_count:8,decoupled_mode:False,logits_datatype:TYPE_FP32,multimodal_encoders_name:multimodal_encoders,tensorrt_llm_model_name:tensorrt_llm,triton_max_batch_size:8

# 15. In the container: the server, one rank; `pkill tritonserver` ends it.
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

# 16. A request; its answer holds "coffee" or "espresso" or "cup" (upper and lower case alike).
curl -sS http://localhost:8000/v2/models/ensemble/generate \
  --header 'content-type: application/json' \
  --data '{"text_input":"<image>\n Please elaborate what you see in the images?","max_tokens":68,"bad_words":"","stop_words":"","end_id":2,"pad_id":2,"top_k":1,"image_url_input":"https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png"}'
