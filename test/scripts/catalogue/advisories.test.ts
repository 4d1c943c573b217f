import { expect, test } from "vitest";
import { differences, readBulletin } from "../../../scripts/catalogue/update-advisories.ts";

/** Parts of NVIDIA's bulletins that are read: https://github.com/NVIDIA/product-security, 2026/5840 and 2026/5865. */
const csaf = (title: string, version: string, cve: string, severity: string) =>
  JSON.stringify({
    document: { title, tracking: { id: "5865", current_release_date: "2026-08-18T00:00:00Z" } },
    product_tree: {
      branches: [
        {
          branches: [
            {
              branches: [
                { category: "product_version", product: { name: "0.0-26.05", product_id: "affected" } },
                { category: "product_version", product: { name: version, product_id: "fixed" } },
              ],
              category: "architecture",
              name: "Linux",
            },
          ],
          category: "vendor",
          name: "NVIDIA",
        },
      ],
    },
    vulnerabilities: [
      {
        cve,
        notes: [
          {
            category: "summary",
            text: "An attacker could cause path traversal.",
            title: "Vulnerability description",
          },
          { category: "details", text: "denial of service", title: "Impacts" },
        ],
        product_status: { fixed: ["fixed"], known_affected: ["affected"] },
        scores: [{ cvss_v3: { baseScore: 9.8, baseSeverity: severity }, products: ["affected"] }],
      },
    ],
  });

const TRITON = "Security Bulletin: NVIDIA Triton Inference Server - August 2026";

const row = {
  id: "CVE-2026-47627",
  severity: "critical",
  component: "triton",
  fixedIn: "26.06",
  bulletin: "2026/5865",
  summary: "An attacker could cause path traversal.",
} as const;

test("rows of a bulletin are read", () => {
  expect(readBulletin("2026/5865", csaf(TRITON, "26.06", row.id, "CRITICAL"))).toEqual({
    date: "2026-08-18",
    rows: [row],
  });
});

test.each([
  [TRITON, "r26.02", "triton", "26.02"],
  ["Security Bulletin: NVIDIA TensorRT-LLM - July 2026", "v1.3.0 rc15", "tensorRtLlm", "1.3.0rc15"],
  ["Security Bulletin: NVIDIA TensorRT LLM - April 2025", "0.18.2", "tensorRtLlm", "0.18.2"],
])("a bulletin `%s` that fixes in %s is of %s %s", (title, version, component, fixedIn) => {
  expect(readBulletin("2026/5840", csaf(title, version, "CVE-2026-24233", "HIGH"))?.rows).toMatchObject([
    { component, fixedIn, severity: "high" },
  ]);
});

test("bulletins of other products are left out, and a bulletin without a severity is refused", () => {
  expect(
    readBulletin("2026/5836", csaf("Security Bulletin: NVIDIA TensorRT - May 2026", "v10", "CVE-1", "HIGH")),
  ).toBeNull();
  expect(() => readBulletin("2026/5865", csaf(TRITON, "26.06", row.id, "NONE"))).toThrow(/baseSeverity/);
});

test("missing and changed rows, and rows of no bulletin are differences", () => {
  const file = { asOf: "2026-08-18", source: "https://example.org", advisories: [row], leftOut: {} };
  const bulletins = [{ date: "2026-08-18", rows: [row] }];
  expect(differences(file, bulletins)).toEqual([]);
  expect(differences({ ...file, advisories: [] }, bulletins)).toEqual([`missing: ${JSON.stringify(row)}`]);
  expect(differences({ ...file, advisories: [], leftOut: { [row.id]: "DALI backend" } }, bulletins)).toEqual(
    [],
  );
  expect(
    differences(
      { ...file, asOf: "2026-08-01", advisories: [{ ...row, severity: "low", summary: "Other." }] },
      bulletins,
    ),
  ).toEqual([
    "asOf: 2026-08-01, the newest bulletin is of 2026-08-18",
    "CVE-2026-47627 severity: low, 2026/5865 has critical",
  ]);
  expect(differences({ ...file, leftOut: { "CVE-2026-1": "DALI backend" } }, bulletins)).toEqual([
    "CVE-2026-1 is in no bulletin",
  ]);
});
