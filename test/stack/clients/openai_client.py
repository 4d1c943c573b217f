"""The official openai client of PyPI against a running stack."""

import json
import os

import openai

outputs = json.loads(os.environ["OUTPUTS"])
client = openai.OpenAI(
    base_url=f"{outputs['endpoints']['gateway']}/v1", api_key=os.environ["API_KEY"], max_retries=0
)
question = [{"role": "user", "content": "What is the capital of France?"}]

assert sorted(model.id for model in client.models.list()) == ["all-MiniLM-L6-v2", "smollm2"]

answer = client.chat.completions.create(model="smollm2", messages=question, temperature=0, max_tokens=32)
assert "Paris" in answer.choices[0].message.content, answer
stream = client.chat.completions.create(
    model="smollm2", messages=question, temperature=0, max_tokens=32, stream=True
)
streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
assert streamed == answer.choices[0].message.content, streamed

vectors = client.embeddings.create(model="all-MiniLM-L6-v2", input=["a cat", "a dog"])
assert [len(row.embedding) for row in vectors.data] == [384, 384]

try:
    client.chat.completions.create(model="none", messages=question)
    raise AssertionError("an unknown model was answered")
except openai.NotFoundError as error:
    assert error.code == "model_not_found", error

print("all checks hold")
