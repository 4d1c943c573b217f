/** Latency that the gateway adds to a Triton call: the same texts through both, one after the other, in pairs. */
import { embeddingsSender, median, textEncoderSender } from "../../scripts/bench/load.ts";

interface OverheadResult {
  readonly pairs: number;
  readonly directP50Milliseconds: number;
  readonly gatewayP50Milliseconds: number;
  /** Median over the pairs of gateway less direct. */
  readonly medianOverheadMilliseconds: number;
}

const PAIRS = 400;
const WARM_UP_PAIRS = 50;

/** @param encoders - HTTP address of the encoders' Triton. */
export async function measureOverhead(
  gateway: string,
  encoders: string,
  headers: Record<string, string>,
): Promise<OverheadResult> {
  // The gateway asks for both tensors, so the direct call does.
  const direct = textEncoderSender(encoders, ["text_embedding", "token_count"]);
  const through = embeddingsSender(gateway, headers);
  const directMilliseconds: number[] = [];
  const throughMilliseconds: number[] = [];
  for (let pair = 0; pair < WARM_UP_PAIRS + PAIRS; pair++) {
    // The first alternates, so that neither always has the warmer caches.
    const order = pair % 2 === 0 ? [direct, through] : [through, direct];
    for (const send of order) {
      const started = performance.now();
      await send(pair);
      if (pair >= WARM_UP_PAIRS)
        (send === direct ? directMilliseconds : throughMilliseconds).push(performance.now() - started);
    }
  }
  const differences = directMilliseconds.map(
    (milliseconds, pair) => (throughMilliseconds[pair] ?? 0) - milliseconds,
  );
  return {
    pairs: PAIRS,
    directP50Milliseconds: median(directMilliseconds),
    gatewayP50Milliseconds: median(throughMilliseconds),
    medianOverheadMilliseconds: median(differences),
  };
}

/** One line for people. */
export function overheadText(figures: OverheadResult): string {
  const { pairs, gatewayP50Milliseconds, directP50Milliseconds, medianOverheadMilliseconds } = figures;
  return `gateway against direct Triton, ${pairs} pairs: p50 ${gatewayP50Milliseconds.toFixed(2)} against ${directP50Milliseconds.toFixed(2)} ms, median difference ${medianOverheadMilliseconds.toFixed(2)} ms`;
}
