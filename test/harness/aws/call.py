"""One call of AWS's own client: what it answers, as JSON."""

import json
import os
import sys

import boto3

request = json.load(sys.stdin)
os.environ.update(request["environment"])
client = boto3.client(request["service"])
answer = getattr(client, request["operation"])(**request["parameters"])
answer.pop("ResponseMetadata", None)
json.dump(answer, sys.stdout, default=str)
