/**
 * EC2 instance types: those with the GPUs of gpus.ts, and some without GPU for encoders and system pods.
 *
 * All figures are of Karpenter's list, which is made from the EC2 API: network is the baseline bandwidth, allocatable is what
 * Karpenter expects a node of the type to leave to pods.
 * https://github.com/aws/karpenter-provider-aws/blob/1d927085dd81a9df9301e613f371dac5b4d16bfe/website/content/en/docs/reference/instance-types.md
 */
import type { GpuName } from "./gpus.ts";
import type { MachineType } from "./types.ts";

type Row = readonly [
  instanceType: string,
  gpu: GpuName | "",
  gpus: number,
  vcpus: number,
  memoryGiB: number,
  localDiskGB: number,
  networkMbps: number,
  allocatableCpuMillis: number,
  allocatableMemoryMiB: number,
];

const rows: readonly Row[] = [
  ["g4dn.xlarge", "T4", 1, 4, 16, 125, 5000, 3920, 14_481],
  ["g4dn.2xlarge", "T4", 1, 8, 32, 225, 10_000, 7910, 29_636],
  ["g4dn.4xlarge", "T4", 1, 16, 64, 225, 20_000, 15_890, 59_946],
  ["g4dn.8xlarge", "T4", 1, 32, 128, 900, 50_000, 31_850, 120_248],
  ["g4dn.12xlarge", "T4", 4, 48, 192, 900, 50_000, 47_810, 178_933],
  ["g4dn.16xlarge", "T4", 1, 64, 256, 900, 50_000, 63_770, 241_490],
  ["g4dn.metal", "T4", 8, 96, 384, 1800, 100_000, 95_690, 355_262],
  ["g5.xlarge", "A10G", 1, 4, 16, 250, 2500, 3920, 14_162],
  ["g5.2xlarge", "A10G", 1, 8, 32, 450, 5000, 7910, 29_317],
  ["g5.4xlarge", "A10G", 1, 16, 64, 600, 10_000, 15_890, 57_691],
  ["g5.8xlarge", "A10G", 1, 32, 128, 900, 25_000, 31_850, 118_312],
  ["g5.12xlarge", "A10G", 4, 48, 192, 3800, 40_000, 47_810, 173_400],
  ["g5.16xlarge", "A10G", 1, 64, 256, 1900, 25_000, 63_770, 239_554],
  ["g5.24xlarge", "A10G", 4, 96, 384, 3800, 50_000, 95_690, 355_262],
  ["g5.48xlarge", "A10G", 8, 192, 768, 7600, 100_000, 191_450, 723_299],
  ["g6.xlarge", "L4", 1, 4, 16, 250, 2500, 3920, 14_162],
  ["g6.2xlarge", "L4", 1, 8, 32, 450, 5000, 7910, 29_317],
  ["g6.4xlarge", "L4", 1, 16, 64, 600, 10_000, 15_890, 57_691],
  ["g6.8xlarge", "L4", 1, 32, 128, 900, 25_000, 31_850, 118_312],
  ["g6.12xlarge", "L4", 4, 48, 192, 3760, 40_000, 47_810, 178_933],
  ["g6.16xlarge", "L4", 1, 64, 256, 1880, 25_000, 63_770, 234_021],
  ["g6.24xlarge", "L4", 4, 96, 384, 3760, 50_000, 95_690, 355_262],
  ["g6.48xlarge", "L4", 8, 192, 768, 7520, 100_000, 191_450, 718_987],
  ["g6e.xlarge", "L40S", 1, 4, 32, 250, 2500, 3920, 29_317],
  ["g6e.2xlarge", "L40S", 1, 8, 64, 450, 5000, 7910, 59_627],
  ["g6e.4xlarge", "L40S", 1, 16, 128, 600, 20_000, 15_890, 118_312],
  ["g6e.8xlarge", "L40S", 1, 32, 256, 900, 25_000, 31_850, 239_554],
  ["g6e.12xlarge", "L40S", 4, 48, 384, 3800, 100_000, 47_810, 360_157],
  ["g6e.16xlarge", "L40S", 1, 64, 512, 1900, 35_000, 63_770, 476_504],
  ["g6e.24xlarge", "L40S", 4, 96, 768, 3800, 200_000, 95_690, 721_682],
  ["g6e.48xlarge", "L40S", 8, 192, 1536, 7600, 400_000, 191_450, 1_449_132],
  ["gr6.4xlarge", "L4", 1, 16, 128, 600, 10_000, 15_890, 118_312],
  ["gr6.8xlarge", "L4", 1, 32, 256, 900, 25_000, 31_850, 239_554],
  ["p4d.24xlarge", "A100-SXM4-40GB", 8, 96, 1152, 8000, 400_000, 95_690, 1_082_712],
  ["p4de.24xlarge", "A100-SXM4-80GB", 8, 96, 1152, 8000, 400_000, 95_690, 1_082_712],
  ["p5.4xlarge", "H100", 1, 16, 256, 3800, 100_000, 15_890, 240_830],
  ["p5.48xlarge", "H100", 8, 192, 2048, 30_400, 3_200_000, 191_450, 1_938_410],
  ["p5e.48xlarge", "H200", 8, 192, 2048, 30_400, 3_200_000, 191_450, 1_938_410],
  ["p5en.48xlarge", "H200", 8, 192, 2048, 30_400, 3_200_000, 191_450, 1_937_332],
  ["m6i.large", "", 0, 2, 8, 0, 781, 1930, 6903],
  ["m6i.xlarge", "", 0, 4, 16, 0, 1562, 3920, 14_162],
  ["m6i.2xlarge", "", 0, 8, 32, 0, 3125, 7910, 29_317],
  ["m6i.4xlarge", "", 0, 16, 64, 0, 6250, 15_890, 57_691],
  ["m7i.large", "", 0, 2, 8, 0, 781, 1930, 6903],
  ["m7i.xlarge", "", 0, 4, 16, 0, 1562, 3920, 14_162],
  ["m7i.2xlarge", "", 0, 8, 32, 0, 3125, 7910, 29_317],
  ["m7i.4xlarge", "", 0, 16, 64, 0, 6250, 15_890, 57_691],
  ["c7i.xlarge", "", 0, 4, 8, 0, 1562, 3920, 6584],
  ["c7i.2xlarge", "", 0, 8, 16, 0, 3125, 7910, 14_162],
  ["c7i.4xlarge", "", 0, 16, 32, 0, 6250, 15_890, 27_381],
];

/** Instance types by name. `gpu` is a key of gpus.ts, empty without GPU. */
export const machineTypes: Readonly<Record<string, MachineType>> = Object.fromEntries(
  rows.map(([type, gpu, gpus, vcpus, memoryGiB, localDiskGB, networkMbps, cpuMillis, memoryMiB]) => [
    type,
    { vcpus, memoryGiB, gpu, gpus, localDiskGB, networkMbps, allocatable: { cpuMillis, memoryMiB } },
  ]),
);
