"""Operations of PyPI's official client against the vector database."""

import os
import uuid
import warnings

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

# The client warns when its version is incompatible with the server's.
warnings.simplefilter("error")
client = QdrantClient(url=os.environ["URL"], timeout=30)


def refused(run) -> tuple[int | None, str]:
    """Returns status and sentence of a failing call's error."""
    try:
        run()
    except UnexpectedResponse as error:
        return error.status_code, error.content.decode()
    raise AssertionError("it succeeded")


# Collections.
params = {
    "text": models.VectorParams(size=3, distance=models.Distance.COSINE),
    "image": models.VectorParams(size=2, distance=models.Distance.DOT),
}
assert not client.collection_exists("things")
assert client.create_collection("things", vectors_config=params)
assert client.collection_exists("things")
assert [one.name for one in client.get_collections().collections] == ["things"]
info = client.get_collection("things")
assert info.points_count == 0 and info.status == models.CollectionStatus.GREEN
assert info.config.params.vectors["text"].size == 3
assert refused(lambda: client.create_collection("things", vectors_config=params))[0] == 409

# Points, one by one, by columns, and uploaded in batches.
identifier = str(uuid.uuid4())
done = client.upsert(
    "things",
    points=[
        models.PointStruct(id=1, vector={"text": [1, 0, 0], "image": [1, 0]}, payload={"kind": "a", "n": 1}),
        models.PointStruct(id=identifier, vector={"text": [0, 1, 0]}, payload={"kind": "b", "n": 2}),
    ],
    wait=True,
)
assert done.status == models.UpdateStatus.COMPLETED
more = [
    models.PointStruct(id=2, vector={"text": [0, 0, 1], "image": [0, 1]}, payload={"n": 3}),
    models.PointStruct(id=3, vector={"text": [1, 1, 0], "image": [9, 0]}, payload={"n": 4}),
]
client.upsert("things", points=more, wait=False)
client.upload_points(
    "things",
    points=[models.PointStruct(id=100 + n, vector={"image": [n, n]}, payload={"n": n}) for n in range(500)],
    batch_size=64,
)
client.upload_collection(
    "things", vectors=[{"image": [1.0, 2.0]}] * 3, ids=[900, 901, 902], payload=[{"n": -1}] * 3
)
assert client.count("things", exact=True).count == 507

# Retrieve and scroll.
found = client.retrieve("things", ids=[identifier, 3], with_vectors=["text"], with_payload=["n"])
assert [(one.id, one.payload) for one in found] == [(identifier, {"n": 2}), (3, {"n": 4})], found
assert [round(value, 4) for value in found[1].vector["text"]] == [0.7071, 0.7071, 0]
seen, offset = [], None
while True:
    page, offset = client.scroll("things", limit=50, offset=offset, with_payload=False)
    seen += [one.id for one in page]
    if offset is None:
        break
assert seen == [1, 2, 3, *range(100, 600), 900, 901, 902, identifier], seen

# Queries, with filter and fusion.
cats = models.Filter(
    must=[models.FieldCondition(key="n", range=models.Range(gte=1, lte=3))],
    must_not=[models.FieldCondition(key="kind", match=models.MatchValue(value="b"))],
)
answer = client.query_points("things", query=[1, 0, 0], using="text", query_filter=cats, limit=5)
assert [one.id for one in answer.points] == [1, 2], answer
assert answer.points[0].score == 1 and answer.points[0].payload == {"kind": "a", "n": 1}
answer = client.query_points("things", query=1, using="text", limit=1, with_payload=False, with_vectors=True)
assert answer.points[0].id == 3 and answer.points[0].vector["image"] == [9, 0], answer
prefetch = [
    models.Prefetch(query=[1, 0, 0], using="text", limit=2),
    models.Prefetch(query=[1, 0], using="image", limit=2),
]
fusion = models.FusionQuery(fusion=models.Fusion.RRF)
answer = client.query_points("things", prefetch=prefetch, query=fusion, limit=3)
fused = [(one.id, round(one.score, 4)) for one in answer.points]
assert fused == [(1, 0.5), (599, 0.5), (3, 0.3333)], answer
requests = [
    models.QueryRequest(query=[0, 0, 1], using="text", limit=1),
    models.QueryRequest(query=1, using="text", limit=1),
]
batch = client.query_batch_points("things", requests=requests)
assert [[one.id for one in part.points] for part in batch] == [[2], [3]], batch
by_id = models.Filter(must=[models.HasIdCondition(has_id=[2, identifier])])
assert client.count("things", count_filter=by_id).count == 2

# Deletion, by ids and by filter.
client.delete("things", points_selector=[100, 101])
client.delete("things", points_selector=models.PointIdsList(points=[102]))
few = models.Filter(must=[models.FieldCondition(key="n", range=models.Range(lt=10))])
client.delete("things", points_selector=models.FilterSelector(filter=few))
assert client.count("things").count == 490

# The client creates the same collection elsewhere, from this collection's description.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    local = QdrantClient(":memory:")
    client.migrate(local, ["things"])
assert local.count("things").count == 490

# Operations that the database does not support are refused.
status, sentence = refused(lambda: client.query_points("things", query=[1.0], using="text"))
assert status == 400 and "expected dim: 3, got 1" in sentence, sentence
assert refused(lambda: client.query_points("things", query=[1, 0, 0], using="text", limit=10**9))[0] == 400
discovery = models.RecommendQuery(recommend=models.RecommendInput(positive=[1]))
assert refused(lambda: client.query_points("things", query=discovery, using="text"))[0] == 400
assert refused(lambda: client.create_payload_index("things", "n", models.PayloadSchemaType.INTEGER))[0] == 404
columns = models.Batch(ids=[1], vectors={"text": [[0, 0, 1]]})
status, sentence = refused(lambda: client.upsert("things", points=columns))
assert status == 400 and "batch" in sentence, sentence
sparse = {"words": models.SparseVectorParams()}
status, sentence = refused(lambda: client.create_collection("sparse", sparse_vectors_config=sparse))
assert status == 400 and "sparse_vectors" in sentence, sentence
assert refused(lambda: client.get_collection("nothing"))[0] == 404

assert client.delete_collection("things")
assert not client.delete_collection("things")
print("all checks hold")
