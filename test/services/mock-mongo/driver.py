"""Operations of PyPI's official driver against the document database."""

import datetime
import os
import uuid

import bson
import pymongo
from bson.codec_options import CodecOptions
from pymongo import errors, operations

client: pymongo.MongoClient = pymongo.MongoClient(
    "127.0.0.1", int(os.environ["PORT"]), serverSelectionTimeoutMS=10_000, uuidRepresentation="standard"
)
database = client["test"]


def code_of(run) -> int | None:
    """Returns the code of a failing call's error."""
    try:
        run()
    except errors.OperationFailure as error:
        return error.code
    raise AssertionError("it succeeded")


assert client.admin.command("ping") == {"ok": 1.0}
assert client.server_info()["versionArray"][0] == 7

# Documents keep their types, and the order of their fields.
documents = database["documents"]
document = {
    "_id": bson.ObjectId(),
    "int": 1,
    "double": 1.0,
    "long": bson.Int64(5),
    "big": 2**62,
    "decimal": bson.Decimal128("1.50"),
    "text": "ä𝄞",
    "bytes": b"\x00\xff",
    "uuid": uuid.uuid4(),
    "date": datetime.datetime(1969, 12, 31, tzinfo=datetime.timezone.utc),
    "nothing": None,
    "list": [2.0, [3], {}],
    "inner": {"b": 1, "a": True},
}
documents.insert_one(document)
read = documents.with_options(CodecOptions(tz_aware=True, uuid_representation=4)).find_one()
assert list(read) == list(document), read
for key, value in document.items():
    assert read[key] == value and isinstance(read[key], type(value)), (key, value, read[key])
documents.update_one({}, {"$set": {"double": 2.0, "more.x": bson.Int64(7)}, "$inc": {"int": 1}})
read = documents.find_one({}, {"_id": 0, "int": 1, "double": 1, "more": 1})
assert read == {"int": 2, "double": 2.0, "more": {"x": 7}}, read
assert type(read["double"]) is float and type(read["more"]["x"]) is bson.Int64, read

# Reads: filter, order, skip, limit, projection, many batches, counts.
numbers = database["numbers"]
inserted = numbers.insert_many([{"_id": n, "n": n, "odd": n % 2 == 1} for n in range(1000)])
assert inserted.inserted_ids == list(range(1000))
found = numbers.find({"odd": True, "n": {"$lt": 100}}, {"_id": 0, "n": 1}).sort("n", -1).skip(1).limit(2)
assert list(found) == [{"n": 97}, {"n": 95}]
assert sorted(one["n"] for one in numbers.find(batch_size=7)) == list(range(1000))
assert numbers.count_documents({"odd": True}) == 500
assert numbers.estimated_document_count() == 1000
with numbers.find(batch_size=10) as cursor:
    next(cursor)
groups = numbers.aggregate(
    [
        {"$match": {"n": {"$gte": 990}}},
        {"$group": {"_id": "$odd", "total": {"$sum": "$n"}}},
        {"$sort": {"total": 1}},
        {"$project": {"_id": 0, "total": 1}},
    ]
)
assert list(groups) == [{"total": 4970}, {"total": 4975}]

# Writes: ordered and unordered bulks, upserts, unacknowledged writes.
bulk = database["bulk"]
for ordered, inserted in ((True, 1), (False, 2)):
    bulk.drop()
    try:
        bulk.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}], ordered=ordered)
        raise AssertionError("a duplicate was inserted")
    except errors.BulkWriteError as error:
        assert error.details["nInserted"] == inserted, error.details
        assert error.details["writeErrors"][0]["code"] == 11000
result = bulk.bulk_write(
    [
        operations.InsertOne({"_id": 3, "n": 1}),
        operations.UpdateOne({"_id": 4}, {"$set": {"n": 2}, "$setOnInsert": {"new": True}}, upsert=True),
        operations.UpdateMany({"n": {"$gte": 1}}, {"$inc": {"n": 10}}),
        operations.ReplaceOne({"_id": 3}, {"replaced": True}),
        operations.DeleteMany({"_id": {"$in": [1, 2]}}),
    ]
)
counts = (result.inserted_count, result.modified_count, result.deleted_count)
assert counts == (1, 3, 2), result.bulk_api_result
assert result.upserted_ids == {1: 4}
assert list(bulk.find()) == [{"_id": 3, "replaced": True}, {"_id": 4, "n": 12, "new": True}]
silent = bulk.with_options(write_concern=pymongo.WriteConcern(w=0))
for n in range(20):
    silent.insert_one({"silent": n})
while bulk.count_documents({"silent": {"$exists": True}}) < 20:
    pass
try:
    bulk.insert_one({"_id": 3})
    raise AssertionError("a duplicate was inserted")
except errors.DuplicateKeyError as error:
    assert error.details["keyValue"] == {"_id": 3}, error.details

# Collections and indexes.
assert sorted(database.list_collection_names()) == ["bulk", "documents", "numbers"]
assert numbers.create_index([("n", 1), ("odd", -1)]) == "n_1_odd_-1"
assert code_of(lambda: numbers.create_index([("n", 1)], unique=True)) == 67
assert set(numbers.index_information()) == {"_id_", "n_1_odd_-1"}
assert code_of(lambda: numbers.create_index([("n", "text")])) == 67
numbers.drop_index("n_1_odd_-1")
try:
    database.create_collection("bulk")
    raise AssertionError("a collection was made twice")
except errors.CollectionInvalid:
    pass

# Sessions without transactions; unsupported commands have MongoDB's own error.
with client.start_session() as session:
    numbers.update_one({"_id": 1}, {"$set": {"seen": True}}, session=session)
    assert numbers.find_one({"_id": 1}, session=session)["seen"]
    with session.start_transaction():
        assert code_of(lambda: numbers.insert_one({}, session=session)) == 20
        session.abort_transaction()
assert code_of(lambda: numbers.distinct("n")) == 59
assert code_of(lambda: numbers.find_one_and_delete({})) == 59
assert code_of(lambda: list(numbers.aggregate([{"$unwind": "$n"}]))) == 40324
assert code_of(lambda: list(numbers.find({"n": {"$frob": 1}}))) == 2

client.drop_database("test")
assert client.list_database_names() == []
print("all checks hold")
