import { expect, test } from "vitest";
import type { PolicyName } from "../../infra/plan/catalogue/types.ts";
import { type CheckedResource, STACK, type StackFacts } from "../../policy/rule.ts";
import { findings, rules } from "../../policy/stack-policy.ts";
import { deployment, facts, resource } from "./resources.ts";

/** Findings of a rule: a part of each finding's reason; after `?`, a finding that can't be decided yet. */
type Expected = readonly string[];

interface Vector {
  readonly what: string;
  readonly resources?: readonly CheckedResource[];
  readonly facts?: Partial<StackFacts>;
  readonly outputs?: Readonly<Record<string, unknown>>;
  readonly finds: Expected;
}

const UNKNOWN = "[unknown]";
const digest = `sha256:${"a".repeat(64)}`;
const allow = (action: unknown) => ({ Statement: [{ Effect: "Allow", Action: action, Resource: "*" }] });
const iam = (policy: unknown) => [resource("aws:iam/policy:Policy", { policy })];
const service = (spec: object, annotations = {}) => [
  resource("kubernetes:core/v1:Service", { metadata: { annotations }, spec }),
];
const ingress = (spec: object, annotations = {}) => [
  resource("kubernetes:networking.k8s.io/v1:Ingress", { metadata: { annotations }, spec }),
];
const route = resource("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", { spec: {} });
const secured = { tls: [{ hosts: ["a.example.org"] }], rules: [{ host: "a.example.org" }] };
const balancer = (internal: unknown) =>
  resource("aws:lb/loadBalancer:LoadBalancer", { internal }, { name: "lb" });
const listener = (inputs: object, internal: unknown = false) => [
  balancer(internal),
  resource(
    "aws:lb/listener:Listener",
    { ...inputs, loadBalancerArn: UNKNOWN },
    {
      propertyDependencies: { loadBalancerArn: [balancer(internal).urn] },
    },
  ),
];
const published = (role: string, port: object) => [
  resource("docker:index/container:Container", {
    labels: [{ label: "engine-room.role", value: role }],
    ports: [{ external: 8080, internal: 8080, ...port }],
  }),
];
const cluster = (vpcConfig: unknown) => [resource("aws:eks/cluster:Cluster", { vpcConfig })];
const group = (ingress: unknown) => [resource("aws:ec2/securityGroup:SecurityGroup", { ingress })];
const template = (blockDeviceMappings?: unknown) => [
  resource("aws:ec2/launchTemplate:LaunchTemplate", { blockDeviceMappings }),
];
const kubernetesLabels = {
  "app.kubernetes.io/instance": "prod",
  "app.kubernetes.io/managed-by": "pulumi",
  "app.kubernetes.io/name": "engine-room",
};
const claim = (options: CheckedResource["options"]) =>
  resource(
    "kubernetes:core/v1:PersistentVolumeClaim",
    { metadata: { name: "store", namespace: "a" } },
    { options },
  );
const namespace = (options: CheckedResource["options"]) =>
  resource("kubernetes:core/v1:Namespace", { metadata: { name: "a" } }, { options });
const mount = (target: string) =>
  resource("docker:index/container:Container", { mounts: [{ source: "v", target }] }, { name: "c" });
const volume = resource("docker:index/volume:Volume", { name: "v" });
const gpu = {
  limits: { "nvidia.com/gpu": "1" },
  requests: { cpu: "1", memory: "1Gi", "nvidia.com/gpu": "1" },
};

const vectors: Readonly<Record<PolicyName, readonly Vector[]>> = {
  "storage-is-encrypted": [
    {
      what: "an encrypted file system",
      resources: [resource("aws:efs/fileSystem:FileSystem", { encrypted: true })],
      finds: [],
    },
    {
      what: "a file system without the property",
      resources: [resource("aws:efs/fileSystem:FileSystem", {})],
      finds: ["encrypted is absent"],
    },
    {
      what: "a key unknown until `up`",
      resources: [resource("aws:efs/fileSystem:FileSystem", { encrypted: UNKNOWN })],
      finds: ["?encrypted"],
    },
    {
      what: "an unencrypted disk",
      resources: [resource("aws:ebs/volume:Volume", { encrypted: false })],
      finds: ["encrypted is false"],
    },
    {
      what: "a template with encrypted disks",
      resources: template([{ ebs: { encrypted: "true" } }]),
      finds: [],
    },
    {
      what: "a template with an unencrypted disk",
      resources: template([{ ebs: { encrypted: "true" } }, { ebs: {} }]),
      finds: ["blockDeviceMappings[1].ebs.encrypted is absent"],
    },
    {
      what: "a template with the image's own disk",
      resources: template(),
      finds: ["blockDeviceMappings is absent"],
    },
    {
      what: "a template with disks unknown until `up`",
      resources: template(UNKNOWN),
      finds: ["?blockDeviceMappings"],
    },
    {
      what: "a machine's own disk",
      resources: [
        resource("aws:ec2/instance:Instance", {
          rootBlockDevice: { encrypted: true },
          ebsBlockDevices: [{}],
        }),
      ],
      finds: ["ebsBlockDevices[0]"],
    },
    {
      what: "a machine of a template",
      resources: [resource("aws:ec2/instance:Instance", { launchTemplate: { id: "lt" } })],
      finds: [],
    },
    {
      what: "nodes without a template",
      resources: [resource("aws:eks/nodeGroup:NodeGroup", { diskSize: 100 })],
      finds: ["launchTemplate is absent"],
    },
    {
      what: "nodes of a template",
      resources: [resource("aws:eks/nodeGroup:NodeGroup", { launchTemplate: { id: UNKNOWN } })],
      finds: [],
    },
    {
      what: "databases",
      resources: [
        resource("aws:rds/instance:Instance", { storageEncrypted: false }),
        resource("aws:docdb/cluster:Cluster", { storageEncrypted: true }),
      ],
      finds: ["storageEncrypted is false"],
    },
    {
      what: "a search domain",
      resources: [resource("aws:opensearch/domain:Domain", { encryptAtRest: { enabled: false } })],
      finds: ["encryptAtRest.enabled"],
    },
    {
      what: "a search domain unknown until `up`",
      resources: [resource("aws:opensearch/domain:Domain", { encryptAtRest: UNKNOWN })],
      finds: ["?encryptAtRest.enabled"],
    },
    {
      what: "classes of volumes",
      resources: [
        resource("kubernetes:storage.k8s.io/v1:StorageClass", {
          provisioner: "ebs.csi.aws.com",
          parameters: { encrypted: "true" },
        }),
        resource("kubernetes:storage.k8s.io/v1:StorageClass", { provisioner: "ebs.csi.aws.com" }),
        resource("kubernetes:storage.k8s.io/v1:StorageClass", { provisioner: "nfs" }),
      ],
      finds: ["parameters.encrypted is absent"],
    },
  ],
  "public-endpoint-is-guarded": [
    { what: "an Ingress with TLS and keys", resources: ingress(secured), finds: [] },
    {
      what: "an Ingress without TLS",
      resources: ingress({ rules: [{ host: "a.example.org" }] }),
      finds: ["no TLS for a.example.org"],
    },
    {
      what: "an Ingress with TLS for another host",
      resources: ingress({ ...secured, rules: [{ host: "b.example.org" }] }),
      finds: ["no TLS for b.example.org"],
    },
    {
      what: "an Ingress without keys",
      resources: ingress(secured),
      facts: { hasApiKeys: false },
      finds: ["requires no API key"],
    },
    {
      what: "an Ingress of an inner network",
      resources: ingress({ rules: [{}] }, { "alb.ingress.kubernetes.io/scheme": "internal" }),
      facts: { hasApiKeys: false },
      finds: [],
    },
    {
      what: "an Ingress of an internal gateway",
      resources: ingress({ rules: [{}] }),
      facts: { exposure: "internal" },
      finds: ["?no TLS for every host"],
    },
    {
      what: "an Ingress with TLS unknown until `up`",
      resources: ingress({ tls: UNKNOWN, rules: [{}] }),
      finds: ["?spec.tls"],
    },
    {
      what: "an Ingress whose load balancer has a certificate",
      resources: ingress({ rules: [{ host: "a" }] }, { "alb.ingress.kubernetes.io/certificate-arn": "arn" }),
      finds: [],
    },
    {
      what: "an Ingress with annotations unknown until `up`",
      resources: [
        resource("kubernetes:networking.k8s.io/v1:Ingress", {
          metadata: { annotations: UNKNOWN },
          spec: { rules: [{ host: "a" }] },
        }),
      ],
      finds: ["no TLS for a"],
    },
    { what: "a route", resources: [route], finds: [] },
    {
      what: "a route to a plain listener, without keys",
      resources: [route],
      facts: { listenerEndsTls: false, hasApiKeys: false },
      finds: ["gateway.route.tls", "requires no API key"],
    },
    {
      what: "a Service of the cluster",
      resources: service({ type: "ClusterIP" }),
      facts: { hasApiKeys: false },
      finds: [],
    },
    { what: "a Service by default", resources: service({}), finds: [] },
    {
      what: "a Service unknown until `up`",
      resources: [resource("kubernetes:core/v1:Service", { spec: UNKNOWN })],
      facts: { hasApiKeys: false },
      finds: ["?spec.type"],
    },
    { what: "a port of every machine", resources: service({ type: "NodePort" }), finds: ["type NodePort"] },
    { what: "a load balancer", resources: service({ type: "LoadBalancer" }), finds: ["type LoadBalancer"] },
    {
      what: "a load balancer inside",
      resources: service({ type: "LoadBalancer" }, { "networking.gke.io/load-balancer-type": "Internal" }),
      finds: [],
    },
    { what: "a listener of HTTPS", resources: listener({ protocol: "HTTPS" }), finds: [] },
    { what: "a listener of HTTP", resources: listener({ protocol: "HTTP" }), finds: ["speaks HTTP"] },
    { what: "a listener that names nothing", resources: listener({}), finds: ["speaks HTTP"] },
    {
      what: "a listener that leads to HTTPS",
      resources: listener({
        protocol: "HTTP",
        defaultActions: [{ type: "redirect", redirect: { protocol: "HTTPS" } }],
      }),
      facts: { hasApiKeys: false },
      finds: [],
    },
    {
      what: "a listener inside",
      resources: listener({ protocol: "TCP" }, true),
      facts: { hasApiKeys: false },
      finds: [],
    },
    {
      what: "a listener of a load balancer unknown until `up`",
      resources: listener({ protocol: "TCP" }, UNKNOWN),
      finds: ["?internal of its load balancer"],
    },
    {
      what: "a gateway for its host",
      resources: published("gateway", { ip: "127.0.0.1" }),
      facts: { hasApiKeys: false },
      finds: [],
    },
    {
      what: "a gateway on every address without keys",
      resources: published("gateway", { ip: "0.0.0.0" }),
      facts: { hasApiKeys: false },
      finds: ["requires no API key"],
    },
    {
      what: "a gateway without an address",
      resources: published("gateway", {}),
      facts: { hasApiKeys: false },
      finds: ["bound to 0.0.0.0"],
    },
    {
      what: "a gateway on every address with keys",
      resources: published("gateway", { ip: "0.0.0.0" }),
      finds: ["?without TLS"],
    },
    {
      what: "a gateway of a private network",
      resources: published("gateway", { ip: "10.0.0.5" }),
      facts: { hasApiKeys: false },
      finds: [],
    },
    {
      what: "a database on a public address",
      resources: published("mongo", { ip: "203.0.113.5" }),
      finds: ["only the gateway checks keys"],
    },
  ],
  "api-is-not-open-to-all": [
    {
      what: "an API for one address",
      resources: cluster({ publicAccessCidrs: ["203.0.113.7/32"] }),
      finds: [],
    },
    {
      what: "an API for all",
      resources: cluster({ publicAccessCidrs: ["10.0.0.0/8", "0.0.0.0/0"] }),
      finds: ["has 0.0.0.0/0"],
    },
    {
      what: "an API for half of all",
      resources: cluster({ publicAccessCidrs: ["128.0.0.0/1"] }),
      finds: ["has 128.0.0.0/1"],
    },
    { what: "an API without ranges", resources: cluster({}), finds: ["is absent, which means 0.0.0.0/0"] },
    { what: "a private API", resources: cluster({ endpointPublicAccess: false }), finds: [] },
    {
      what: "an API for ranges unknown until `up`",
      resources: cluster({ publicAccessCidrs: [UNKNOWN] }),
      finds: ["?vpcConfig.publicAccessCidrs"],
    },
    {
      what: "ssh for all",
      resources: group([{ fromPort: 22, toPort: 22, cidrBlocks: ["0.0.0.0/0"] }]),
      finds: ["reach port 22"],
    },
    {
      what: "TLS for all",
      resources: group([{ fromPort: 443, toPort: 443, cidrBlocks: ["0.0.0.0/0"] }]),
      finds: [],
    },
    {
      what: "many ports for all, by IPv6",
      resources: group([{ fromPort: 443, toPort: 8443, ipv6CidrBlocks: ["::/0"] }]),
      finds: ["ports 443 to 8443"],
    },
    {
      what: "a group among themselves",
      resources: group([{ fromPort: 0, toPort: 65_535, self: true }]),
      finds: [],
    },
    { what: "a group unknown until `up`", resources: group(UNKNOWN), finds: ["?ingress"] },
    {
      what: "rules by themselves",
      resources: [
        resource("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", {
          cidrIpv4: "0.0.0.0/0",
          fromPort: 2049,
          toPort: 2049,
        }),
        resource("aws:ec2/securityGroupRule:SecurityGroupRule", {
          type: "egress",
          cidrBlocks: ["0.0.0.0/0"],
        }),
        resource("aws:ec2/securityGroupRule:SecurityGroupRule", {
          type: "ingress",
          fromPort: 80,
          toPort: 80,
          cidrBlocks: ["0.0.0.0/0"],
        }),
      ],
      finds: ["reach port 2049", "reach port 80"],
    },
  ],
  "iam-action-has-no-wildcard": [
    {
      what: "named actions",
      resources: iam(allow(["ecr:GetAuthorizationToken", "ecr:BatchGet*"])),
      finds: [],
    },
    { what: "everything", resources: iam(allow("*")), finds: ["allows *"] },
    {
      what: "everything of a service, as text",
      resources: iam(JSON.stringify(allow(["s3:GetObject", "s3:*"]))),
      finds: ["allows s3:*"],
    },
    { what: "everything, denied", resources: iam({ Statement: { Effect: "Deny", Action: "*" } }), finds: [] },
    {
      what: "everything but",
      resources: iam({ Statement: { Effect: "Allow", NotAction: "iam:*" } }),
      finds: ["NotAction"],
    },
    { what: "a document unknown until `up`", resources: iam(UNKNOWN), finds: ["?document"] },
    { what: "an action unknown until `up`", resources: iam(allow([UNKNOWN])), finds: ["?Action"] },
    { what: "no document", resources: iam("Allow all"), finds: ["not a JSON object"] },
    {
      what: "a role's own policies",
      resources: [
        resource("aws:iam/role:Role", {
          assumeRolePolicy: allow("sts:AssumeRole"),
          inlinePolicies: [{ policy: JSON.stringify(allow("ec2:*")) }],
          managedPolicyArns: ["arn:aws:iam::aws:policy/AdministratorAccess"],
        }),
      ],
      finds: ["allows ec2:*", "AdministratorAccess"],
    },
    {
      what: "policies of AWS",
      resources: ["AmazonS3FullAccess", "AmazonEKSWorkerNodePolicy"].map((name) =>
        resource("aws:iam/rolePolicyAttachment:RolePolicyAttachment", {
          policyArn: `arn:aws:iam::aws:policy/${name}`,
        }),
      ),
      finds: ["AmazonS3FullAccess"],
    },
  ],
  "resources-are-labelled": [
    {
      what: "an object with labels",
      resources: [resource("kubernetes:core/v1:ConfigMap", { metadata: { labels: kubernetesLabels } })],
      finds: [],
    },
    {
      what: "an object with an empty label",
      resources: [
        resource("kubernetes:core/v1:ConfigMap", {
          metadata: { labels: { ...kubernetesLabels, "app.kubernetes.io/instance": "" } },
        }),
      ],
      finds: ["lacks app.kubernetes.io/instance"],
    },
    {
      what: "an object without metadata",
      resources: [resource("kubernetes:core/v1:ConfigMap", {})],
      finds: ["lacks app.kubernetes.io/instance, app.kubernetes.io/managed-by, app.kubernetes.io/name"],
    },
    {
      what: "an object unknown until `up`",
      resources: [resource("kubernetes:core/v1:ConfigMap", { metadata: UNKNOWN })],
      finds: ["?metadata.labels"],
    },
    { what: "a chart", resources: [resource("kubernetes:helm.sh/v3:Release", {})], finds: [] },
    {
      what: "a container",
      resources: [
        resource("docker:index/container:Container", {
          labels: [{ label: "engine-room.stack", value: "prod" }],
        }),
      ],
      finds: [],
    },
    {
      what: "a volume without",
      resources: [resource("docker:index/volume:Volume", {})],
      finds: ["engine-room.stack"],
    },
    { what: "an image", resources: [resource("docker:index/remoteImage:RemoteImage", {})], finds: [] },
    {
      what: "a tagged network",
      resources: [resource("aws:ec2/vpc:Vpc", { tags: { "engine-room:stack": "prod" } })],
      finds: [],
    },
    {
      what: "a network without tags, and a route, which can't have tags",
      resources: [resource("aws:ec2/vpc:Vpc", { tags: { Name: "a" } }), resource("aws:ec2/route:Route", {})],
      finds: ["tags lacks engine-room:stack"],
    },
    {
      what: "a group with a list of tags",
      resources: [
        resource("aws:autoscaling/group:Group", { tags: [{ key: "engine-room:stack", value: "prod" }] }),
      ],
      finds: [],
    },
    {
      what: "tags unknown until `up`",
      resources: [
        resource("aws:ec2/vpc:Vpc", { tags: { "engine-room:stack": UNKNOWN } }),
        resource("aws:ec2/vpc:Vpc", { tags: UNKNOWN }),
      ],
      finds: ["?tags"],
    },
    {
      what: "an entry that is not a provider's resource",
      resources: [resource("engine-room:kubernetes:Gateway", {}), resource("pulumi:providers:aws", {})],
      finds: [],
    },
  ],
  "price-is-below-cap": [
    { what: "no cap", outputs: { cost: { hourlyUsd: 1000 } }, finds: [] },
    { what: "at the cap", outputs: { cost: { hourlyUsd: 2.5 } }, facts: { hourlyUsdCap: 2.5 }, finds: [] },
    {
      what: "above it",
      outputs: { cost: { hourlyUsd: 2.51 } },
      facts: { hourlyUsdCap: 2.5 },
      finds: ["costs 2.51 USD an hour"],
    },
    {
      what: "a cap of nothing",
      outputs: { cost: { hourlyUsd: 0.01 } },
      facts: { hourlyUsdCap: 0 },
      finds: ["cap is 0.00 USD"],
    },
    {
      what: "a price unknown until `up`",
      outputs: { cost: UNKNOWN },
      facts: { hourlyUsdCap: 2.5 },
      finds: ["?cost.hourlyUsd"],
    },
    { what: "no outputs", facts: { hourlyUsdCap: 2.5 }, finds: ["?cost.hourlyUsd"] },
    {
      what: "a lower bound below it",
      outputs: { cost: { hourlyUsd: 0.1, withoutPrice: ["pool gpu", "NAT gateway"] } },
      facts: { hourlyUsdCap: 2.5 },
      finds: ["no price is known for pool gpu, NAT gateway"],
    },
    {
      what: "a lower bound above it",
      outputs: { cost: { hourlyUsd: 2.6, withoutPrice: ["pool gpu"] } },
      facts: { hourlyUsdCap: 2.5 },
      finds: ["costs 2.60 USD an hour"],
    },
    {
      what: "no price at all",
      outputs: { cost: { hourlyUsd: null, withoutPrice: ["pool gpu"] } },
      facts: { hourlyUsdCap: 2.5 },
      finds: ["no price is known for pool gpu"],
    },
    {
      what: "no price, and no cap",
      outputs: { cost: { hourlyUsd: null, withoutPrice: ["pool gpu"] } },
      finds: [],
    },
  ],
  "gpu-pod-has-limits": [
    { what: "a server with a GPU", resources: [deployment({ resources: gpu })], finds: [] },
    {
      what: "a share of a GPU",
      resources: [deployment({ resources: { ...gpu, limits: { "nvidia.com/gpu.shared": "1" } } })],
      finds: [],
    },
    {
      what: "a partition",
      resources: [deployment({ resources: { ...gpu, limits: { "nvidia.com/mig-1g.5gb": "1" } } })],
      finds: [],
    },
    {
      what: "only requests",
      resources: [deployment({ resources: { requests: gpu.requests } })],
      finds: ["limits of a GPU resource"],
    },
    {
      what: "no requests",
      resources: [deployment({ resources: { limits: gpu.limits } })],
      finds: ["requests.cpu, requests.memory"],
    },
    {
      what: "a limit of zero",
      resources: [deployment({ resources: { ...gpu, limits: { "nvidia.com/gpu": "0" } } })],
      finds: ["limits of a GPU resource"],
    },
    {
      what: "TensorRT-LLM's image without anything",
      resources: [deployment({ image: "registry.example.org/engine-room/trtllm:25.07-0123" })],
      finds: ["runs registry.example.org/engine-room/trtllm"],
    },
    {
      what: "TensorRT-LLM's image that only sleeps, so that its machine has it",
      resources: [
        deployment({
          image: "registry.example.org/engine-room/trtllm:25.07-0123",
          command: ["sleep", "infinity"],
        }),
      ],
      finds: [],
    },
    {
      what: "devices by the environment",
      resources: [deployment({ env: [{ name: "NVIDIA_VISIBLE_DEVICES", value: "all" }] })],
      finds: ["NVIDIA_VISIBLE_DEVICES to all"],
    },
    {
      what: "no devices by the environment",
      resources: [deployment({ env: [{ name: "NVIDIA_VISIBLE_DEVICES", value: "void" }] })],
      finds: [],
    },
    {
      what: "the runtime of NVIDIA",
      resources: [deployment({}, { runtimeClassName: "nvidia" })],
      finds: ["runtime class nvidia"],
    },
    { what: "a gateway", resources: [deployment({ image: "services:1" })], finds: [] },
    {
      what: "limits unknown until `up`",
      resources: [deployment({ resources: { ...gpu, limits: UNKNOWN } })],
      finds: ["?resources.limits"],
    },
    {
      what: "a pod unknown until `up`",
      resources: [resource("kubernetes:core/v1:Pod", { spec: UNKNOWN })],
      finds: ["?the pod"],
    },
  ],
  "image-has-digest": [
    { what: "a digest", resources: [deployment({ image: `registry.example.org/a@${digest}` })], finds: [] },
    { what: "a tag and a digest", resources: [deployment({ image: `a:1@${digest}` })], finds: [] },
    { what: "a tag", resources: [deployment({ image: "a:1" })], finds: ["runs a:1"] },
    {
      what: "an image that is built after the change is merged",
      resources: [deployment({ image: "registry.example.org/room/trtllm:25.07-0123456789ab" })],
      finds: ["?images.lock.json has no digest of this content"],
    },
    {
      what: "a database's own image whose digest is not looked up yet",
      resources: [deployment({ image: "docker.io/library/mongo:8.0.26" })],
      finds: ["?images.lock.json has no digest of this content"],
    },
    ...[
      "evil.example/x/services:0123456789ab",
      "registry.example.org/room/trtllm:25.07-ba9876543210",
      "docker.io/qdrant/qdrant:latest",
      "docker.io/library/mongo:latest",
    ].map((image) => ({
      what: `${image}, which has the form of an image that the stack waits for`,
      resources: [deployment({ image })],
      finds: [`runs ${image}, which names no digest`],
    })),
    {
      what: "an image of another commit by its form",
      resources: [deployment({ image: "registry.example.org/room/services:ba9876543210" })],
      facts: { awaitedImages: null },
      finds: ["?images.lock.json has no digest of this content"],
    },
    {
      what: "an image of the project by a user's own tag",
      resources: [deployment({ image: "registry.example.org/room/trtllm:latest" })],
      finds: ["runs registry.example.org/room/trtllm:latest"],
    },
    {
      what: "half a digest",
      resources: [deployment({ image: "a@sha256:0123" })],
      finds: ["runs a@sha256:0123"],
    },
    {
      what: "an init container",
      resources: [deployment({ image: `a@${digest}` }, { initContainers: [{ name: "first", image: "b" }] })],
      finds: ["The container first runs b"],
    },
    {
      what: "an image unknown until `up`",
      resources: [deployment({ image: UNKNOWN })],
      finds: ["?image of the container main"],
    },
    { what: "no image", resources: [deployment({})], finds: ["runs no image"] },
    {
      what: "a job unknown until `up`",
      resources: [
        resource("kubernetes:batch/v1:CronJob", {
          spec: { jobTemplate: { spec: { template: { spec: UNKNOWN } } } },
        }),
      ],
      finds: ["?the pod"],
    },
    {
      what: "a local image by its id",
      resources: [resource("docker:index/container:Container", { image: digest })],
      finds: [],
    },
    {
      what: "a container's image unknown until `up`",
      resources: [resource("docker:index/container:Container", { image: UNKNOWN })],
      finds: ["?image of the container one"],
    },
    {
      what: "an image that was built here",
      resources: [
        resource(
          "docker:index/remoteImage:RemoteImage",
          { name: "a:1", build: { context: "." } },
          { name: "i" },
        ),
        resource(
          "docker:index/container:Container",
          { image: UNKNOWN },
          {
            propertyDependencies: {
              image: [resource("docker:index/remoteImage:RemoteImage", {}, { name: "i" }).urn],
            },
          },
        ),
      ],
      finds: [],
    },
    {
      what: "an image that is pulled by its tag",
      resources: [resource("docker:index/remoteImage:RemoteImage", { name: "mongo:8" })],
      finds: ["runs mongo:8"],
    },
  ],
  "engine-store-is-protected": [
    {
      what: "a kept claim in a kept namespace",
      resources: [claim({ retainOnDelete: true }), namespace({ retainOnDelete: true })],
      finds: [],
    },
    { what: "a protected claim", resources: [claim({ protect: true })], finds: [] },
    { what: "a claim that goes", resources: [claim({})], finds: ["The claim has neither"] },
    {
      what: "a kept claim in a namespace that goes",
      resources: [claim({ protect: true }), namespace({})],
      finds: ["The namespace of a kept claim has neither"],
    },
    { what: "a namespace without claims", resources: [namespace({})], finds: [] },
    {
      what: "a pack, which is not told",
      resources: [claim({ protect: false, retainOnDelete: null })],
      finds: ["?unknown to policy packs"],
    },
    {
      what: "documents that go with their server",
      resources: [
        resource("kubernetes:apps/v1:StatefulSet", {
          spec: { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete" } },
        }),
      ],
      finds: ["whenDeleted is Delete"],
    },
    {
      what: "documents that go with a stack which is not to be retained",
      resources: [
        resource("kubernetes:apps/v1:StatefulSet", {
          spec: { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete" } },
        }),
      ],
      facts: { keepsDocuments: false },
      finds: [],
    },
    {
      what: "a disk of databases that goes, of a stack that is retained",
      resources: [resource("aws:ebs/volume:Volume", {})],
      finds: ["The disk of databases has neither"],
    },
    {
      what: "a disk of databases that goes with a stack which is not to be retained",
      resources: [resource("aws:ebs/volume:Volume", {})],
      facts: { keepsDocuments: false },
      finds: [],
    },
    {
      what: "a volume with engines",
      resources: [volume, mount("/store")],
      finds: ["The volume has neither"],
    },
    { what: "a volume for scratch", resources: [volume, mount("/scratch")], finds: [] },
    {
      what: "a volume for scratch and more",
      resources: [volume, mount("/scratch"), mount("/store")],
      finds: ["The volume"],
    },
    {
      what: "a file system",
      resources: [resource("aws:efs/fileSystem:FileSystem", {})],
      finds: ["The file system"],
    },
  ],
  "release-has-fixes": [
    {
      what: "an engine of 25.07",
      outputs: { models: [{ name: "a", release: "25.07", engineKey: "f".repeat(64) }] },
      finds: ["a runs on 25.07 with runtime engine"],
    },
    {
      what: "no engine of 25.07",
      outputs: { models: [{ name: "a", release: "25.07", engineKey: null }] },
      finds: [],
    },
    {
      what: "a model on a CPU",
      outputs: { models: [{ name: "a", release: "cpu", engineKey: null }] },
      finds: [],
    },
    { what: "models unknown until `up`", outputs: { models: UNKNOWN }, finds: ["?models"] },
    {
      what: "a release unknown until `up`",
      outputs: { models: [{ name: "a", release: UNKNOWN, engineKey: null }] },
      finds: ["?release of a"],
    },
  ],
};

const cases = Object.entries(vectors).flatMap(([rule, ofRule]) =>
  ofRule.map((vector) => ({ rule, does: verdict(vector.finds), ...vector })),
);

function verdict(finds: Expected): string {
  if (finds.length === 0) return "accepts";
  return finds.some((text) => !text.startsWith("?")) ? "reports" : "can't decide yet on";
}

test.each(cases)("$rule $does $what", ({ rule, resources = [], facts: own = {}, outputs = {}, finds }) => {
  const found = findings(rules[rule as PolicyName], {
    resources: [...resources, resource(STACK, outputs)],
    facts: { ...facts, ...own },
  });
  expect(found.map(({ isUndecided }) => isUndecided ?? false)).toEqual(
    finds.map((text) => text.startsWith("?")),
  );
  for (const [index, text] of finds.entries())
    expect(found[index]?.reason.toLowerCase()).toContain(text.replace(/^\?/, "").toLowerCase());
  for (const { fix } of found) expect(fix).toMatch(/\S.*\.$/);
});

test.each(Object.entries(vectors))("%s has examples that hold and that break it", (_rule, ofRule) => {
  expect(ofRule.some(({ finds }) => finds.length === 0)).toBe(true);
  expect(ofRule.some(({ finds }) => finds.some((text) => !text.startsWith("?")))).toBe(true);
});
