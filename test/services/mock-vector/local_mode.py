"""Random requests to the vector database and to the local mode of Qdrant's own client."""

import math
import os
import random
import warnings

from qdrant_client import QdrantClient, models

QUESTIONS = 300 if os.environ.get("ENGINE_ROOM_THOROUGH") == "1" else 60
POINTS = 120

warnings.simplefilter("error")
server = QdrantClient(url=os.environ["URL"], timeout=30)
local = QdrantClient(":memory:")
dice = random.Random(20)  # noqa: S311 (questions, not secrets)


def both(call):
    """Returns the results of both, which must succeed."""
    return call(server), call(local)


def some(values, most=3):
    return [dice.choice(values) for _ in range(dice.randint(1, most))]


def vector(size: int) -> list[float]:
    return [round(dice.uniform(-1, 1), 6) for _ in range(size)]


# Without 0, 1 and ranges of `flag`: Python equates 0 and 1 with False and True, which JSON and Qdrant do not.
SCALARS = ["a", "b", "c", 2, 3, 4, True, False]


def payload() -> dict:
    values = {
        "kind": dice.choice(["a", "b", "c"]),
        "n": dice.choice([2, 3, 4, 5, 2.5, None, [2, 3], []]),
        "flag": dice.choice([True, False]),
        "more": {
            "x": dice.choice([2, "a", None, ["a", "b"]]),
            "list": [{"y": dice.randint(2, 5)} for _ in range(dice.randint(0, 3))],
        },
    }
    return {key: value for key, value in values.items() if dice.random() < 0.8}


KEYS = ["kind", "n", "flag", "more.x", "more.list[].y", "nothing", "more"]
NUMBERS = [key for key in KEYS if key != "flag"]


def match():
    if dice.random() < 0.5:
        return models.MatchValue(value=dice.choice(SCALARS))
    return models.MatchAny(any=some(["a", "b", "c"]) if dice.random() < 0.5 else some([2, 3, 4, 5]))


def condition(depth: int):
    match dice.randint(0, 3 if depth else 2):
        case 0:
            return models.FieldCondition(key=dice.choice(KEYS), match=match())
        case 1:
            limits = {name: dice.choice([2, 3, 4, 5]) for name in some(["gt", "gte", "lt", "lte"], 2)}
            return models.FieldCondition(key=dice.choice(NUMBERS), range=models.Range(**limits))
        case 2:
            return models.HasIdCondition(has_id=[dice.randrange(POINTS) for _ in range(30)])
        case _:
            return condition_filter(depth - 1)


def condition_filter(depth: int = 1) -> models.Filter:
    clauses = {
        name: [condition(depth) for _ in range(dice.randint(1, 2))]
        for name in ("must", "should", "must_not")
        if dice.random() < 0.5
    }
    return models.Filter(**clauses)


DISTANCES = {"cosine": models.Distance.COSINE, "dot": models.Distance.DOT, "euclid": models.Distance.EUCLID}
params = {name: models.VectorParams(size=4, distance=distance) for name, distance in DISTANCES.items()}
both(lambda client: client.create_collection("things", vectors_config=params))
points = [
    models.PointStruct(
        id=number,
        vector={name: vector(4) for name in DISTANCES if dice.random() < 0.9},
        payload=payload(),
    )
    for number in range(POINTS)
]
both(lambda client: client.upsert("things", points=points, wait=True))
for number in range(0, POINTS, 17):
    both(lambda client, number=number: client.delete("things", points_selector=[number]))
again = [models.PointStruct(id=3, vector={"dot": [1, 1, 1, 1]}, payload={"kind": "z"})]
both(lambda client: client.upsert("things", points=again, wait=True))

differences = []


def is_same(ours, theirs) -> bool:
    """Treats close numbers as equal: the two round 32 bits differently."""
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-5)
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    return ours == theirs


def compare(what, asked, call) -> None:
    ours, theirs = both(lambda client: call(client, asked))
    if not is_same(ours, theirs):
        differences.append(f"{what} {asked}\n  here:   {ours}\n  Qdrant: {theirs}")


def hits(answer):
    return [(one.id, one.score) for one in answer.points]


for _ in range(QUESTIONS):
    asked = condition_filter(2)
    compare("count", asked, lambda client, asked: client.count("things", count_filter=asked).count)
    compare(
        "scroll",
        asked,
        lambda client, asked: [one.id for one in client.scroll("things", scroll_filter=asked, limit=50)[0]],
    )
    name = dice.choice(list(DISTANCES))
    query = {
        "query": vector(4),
        "using": name,
        "limit": dice.randint(1, 20),
        "offset": dice.choice([0, 0, 3]),
        "score_threshold": dice.choice([None, None, 0.3, 0.9]),
        "query_filter": asked if dice.random() < 0.5 else None,
    }
    compare("query", query, lambda client, asked: hits(client.query_points("things", **asked)))
    fused = {
        "prefetch": [
            models.Prefetch(query=vector(4), using=using, limit=dice.randint(1, 10))
            for using in ("cosine", "dot")
        ],
        "query": models.FusionQuery(fusion=models.Fusion.RRF),
        "limit": 30,
    }
    compare("fusion", fused, lambda client, asked: sorted(hits(client.query_points("things", **asked))))
ids = [1, 2, 3, 17, 40]
compare(
    "retrieve",
    ids,
    lambda client, asked: [
        (
            one.id,
            one.payload,
            sorted(one.vector.items()),
        )
        for one in sorted(client.retrieve("things", ids=asked, with_vectors=True), key=lambda one: one.id)
    ],
)
print("\n".join(differences[:10]))
print(f"{len(differences)} differences")
