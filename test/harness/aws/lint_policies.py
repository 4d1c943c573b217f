"""What a linter finds in policy documents: lists of findings by name, as JSON."""

import json
import sys
import warnings

# parliament imports pkg_resources, which says of itself that it will go; setuptools is pinned for it.
warnings.filterwarnings("ignore", message="pkg_resources is deprecated")

from parliament import analyze_policy_string  # noqa: E402


def findings(document: dict[str, object]) -> list[dict[str, str]]:
    statements = document.get("Statement")
    if isinstance(statements, list):
        # A trust policy has no resource: it is the role's own. The linter knows only policies that name one.
        document = {**document, "Statement": [with_resource(statement) for statement in statements]}
    analysis = analyze_policy_string(json.dumps(document))
    return [
        {
            "issue": finding.issue,
            "detail": finding.detail if isinstance(finding.detail, str) else json.dumps(finding.detail),
        }
        for finding in analysis.findings
    ]


def with_resource(statement: dict[str, object]) -> dict[str, object]:
    return {"Resource": "*", **statement} if "Principal" in statement else statement


json.dump({name: findings(document) for name, document in json.load(sys.stdin).items()}, sys.stdout)
