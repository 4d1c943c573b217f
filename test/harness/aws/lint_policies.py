"""Print findings of a linter in policy documents: lists by name, as JSON."""

import json
import sys
import warnings

# parliament imports pkg_resources, which says of itself that it will go; setuptools is pinned for it.
warnings.filterwarnings("ignore", message="pkg_resources is deprecated")

from parliament import analyze_policy_string  # noqa: E402

# A policy attached to a resource needs no `Resource`; a star there means only that resource.
ITSELF = "arn:aws:iam::000000000000:role/itself"


def findings(document: dict[str, object]) -> list[dict[str, str]]:
    statements = document.get("Statement", [])
    of_resource = isinstance(statements, list) and any("Principal" in statement for statement in statements)
    if of_resource:
        document = {**document, "Statement": [{"Resource": ITSELF, **one} for one in statements]}
    return [
        {
            "issue": finding.issue,
            "detail": finding.detail if isinstance(finding.detail, str) else json.dumps(finding.detail),
        }
        for finding in analyze_policy_string(json.dumps(document)).findings
        if not (of_resource and finding.issue == "RESOURCE_STAR")
    ]


json.dump({name: findings(document) for name, document in json.load(sys.stdin).items()}, sys.stdout)
