# Encoders 332c6f498954: fp32, in nvcr.io/nvidia/tritonserver:25.07-py3 with encoder_builder, on any machine.
mkdir -p /store/encoders/332c6f498954/clip_text /store/encoders/332c6f498954/text_encoder /store/encoders/332c6f498954/vision_encoder

# clip_text: clip-vit-base-patch32, served by clip_text_tower.
# export: downloads the files at their commit and writes the ONNX graph (encoder_builder is this project's own program).
encoder_builder export \
  --repository=openai/clip-vit-base-patch32 \
  --revision=3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268 \
  --file=config.json=b575ef3c36f2a057fa19e221650105052d61cc9c1a972ec15019c6261ec98770 \
  --file=pytorch_model.bin=a63082132ba4f97a80bea76823f544493bffa8082296d62d71581a4feff1576f \
  --file=tokenizer.json=b556ac8c99757ffb677208af34bc8c6721572114111a6e0aaf5fa69ff0b8d842 \
  --tower=text \
  --graph=endOfTextPooling,projection,normalize \
  --inputs=input_ids,attention_mask \
  --output=text_embedding \
  --dimension=512 \
  --data-type=float32 \
  --opset=17 \
  --weights=/store/weights/clip-vit-base-patch32/3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268 \
  --assets=/store/encoders/332c6f498954/clip_text \
  --onnx=/store/encoders/332c6f498954/clip_text/model.onnx

# text_encoder: all-MiniLM-L6-v2, served by text_tower.
# export: downloads the files at their commit and writes the ONNX graph (encoder_builder is this project's own program).
encoder_builder export \
  --repository=sentence-transformers/all-MiniLM-L6-v2 \
  --revision=1110a243fdf4706b3f48f1d95db1a4f5529b4d41 \
  --file=config.json=953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 \
  --file=model.safetensors=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db \
  --file=sentence_bert_config.json=fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7 \
  --file=tokenizer.json=be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 \
  --tower=text \
  --graph=meanPooling,normalize \
  --inputs=input_ids,attention_mask \
  --output=text_embedding \
  --dimension=384 \
  --data-type=float32 \
  --opset=17 \
  --weights=/store/weights/all-MiniLM-L6-v2/1110a243fdf4706b3f48f1d95db1a4f5529b4d41 \
  --assets=/store/encoders/332c6f498954/text_encoder \
  --onnx=/store/encoders/332c6f498954/text_encoder/model.onnx

# vision_encoder: clip-vit-base-patch32, served by vision_tower.
# export: downloads the files at their commit and writes the ONNX graph (encoder_builder is this project's own program).
encoder_builder export \
  --repository=openai/clip-vit-base-patch32 \
  --revision=3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268 \
  --file=config.json=b575ef3c36f2a057fa19e221650105052d61cc9c1a972ec15019c6261ec98770 \
  --file=pytorch_model.bin=a63082132ba4f97a80bea76823f544493bffa8082296d62d71581a4feff1576f \
  --tower=vision \
  --graph=classTokenPooling,projection,normalize \
  --inputs=pixel_values \
  --output=image_embedding \
  --dimension=512 \
  --data-type=float32 \
  --opset=17 \
  --weights=/store/weights/clip-vit-base-patch32/3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268 \
  --assets=/store/encoders/332c6f498954/vision_encoder \
  --onnx=/store/encoders/332c6f498954/vision_encoder/model.onnx
