/** Quantities as Kubernetes writes them: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ */

const FACTORS: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** Cores of CPU, bytes of memory or disk, or a count. @throws Error for a text that is none. */
export function quantity(text: string): number {
  const [, number = "", suffix = ""] =
    /^([+-]?[0-9.]+(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?$/.exec(text) ?? [];
  const factor = FACTORS[suffix];
  const value = Number(number);
  if (number === "" || factor === undefined || Number.isNaN(value))
    throw new Error(`${JSON.stringify(text)} is no quantity of Kubernetes.`);
  return value * factor;
}
