/** Rules about who may do what: the networks that reach an API or a port, and the actions that IAM policies allow. */
import {
  at,
  type Check,
  type Finding,
  isMapping,
  listAt,
  type Rule,
  UNKNOWN,
  undecided,
  violatedIf,
} from "../rule.ts";

/** A shorter prefix is no organisation's network: the largest that were ever assigned have eight bits. */
const SHORTEST_PREFIX_BITS = 8;

const TLS_PORT = 443;

/** `0.0.0.0/0`, `::/0`, and halves or quarters of them. */
function isOpenToAll(cidr: unknown): boolean {
  const bits = typeof cidr === "string" ? /\/(\d+)$/.exec(cidr)?.[1] : undefined;
  return bits !== undefined && Number(bits) < SHORTEST_PREFIX_BITS;
}

/** @param rule - In any of the forms of @pulumi/aws: within a group, or a resource of one of two types. */
function openPorts(path: string, rule: unknown): readonly Finding[] {
  const [fromPort, toPort] = [at(rule, "fromPort"), at(rule, "toPort")];
  // Clients reach a public gateway there; public-endpoint-is-guarded checks the listener.
  if (fromPort === TLS_PORT && toPort === TLS_PORT) return [];
  const cidrs = ["cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6"].flatMap((key) => at(rule, key));
  const open = cidrs.find(isOpenToAll);
  if (open === undefined && cidrs.includes(UNKNOWN)) return [undecided(path)];
  const isRange = fromPort !== undefined && fromPort !== toPort;
  const ports = isRange ? `ports ${fromPort} to ${toPort}` : `port ${fromPort ?? "of any number"}`;
  return violatedIf(
    open !== undefined,
    `${path} lets ${String(open)} reach ${ports}, and only ${TLS_PORT} is meant for everybody.`,
    "Name the networks, or the security group, that may reach it.",
  );
}

const openGroup: Check = ({ inputs: { ingress } }) =>
  ingress === UNKNOWN
    ? [undecided("ingress")]
    : listAt(ingress).flatMap((rule, index) => openPorts(`ingress[${index}]`, rule));

export const apiIsNotOpenToAll: Rule = {
  description: "Neither the cluster's API nor any port except 443 is open to every address.",
  level: "mandatory",
  scope: "resource",
  checks: {
    "aws:eks/cluster:Cluster": ({ inputs: { vpcConfig } }) => {
      const cidrs = at(vpcConfig, "publicAccessCidrs");
      if (at(vpcConfig, "endpointPublicAccess") === false) return [];
      if (cidrs === UNKNOWN || listAt(cidrs).includes(UNKNOWN))
        return [undecided("vpcConfig.publicAccessCidrs")];
      const open = listAt(cidrs).length > 0 ? listAt(cidrs).find(isOpenToAll) : "0.0.0.0/0";
      return violatedIf(
        open !== undefined,
        `vpcConfig.publicAccessCidrs ${cidrs === undefined ? "is absent, which means" : "has"} ${open}: the whole internet may try the cluster's API.`,
        "Write the networks of those who administer it in access.apiCidrs.",
      );
    },
    "aws:ec2/securityGroup:SecurityGroup": openGroup,
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": openGroup,
    "aws:ec2/securityGroupRule:SecurityGroupRule": ({ inputs }) =>
      inputs.type === "ingress" ? openPorts("cidrBlocks", inputs) : [],
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": ({ inputs }) =>
      openPorts("cidrIpv4", inputs),
    "kubernetes:core/v1:Service": ({ inputs: { spec } }) =>
      violatedIf(
        at(spec, "type") === "LoadBalancer" && listAt(spec, "loadBalancerSourceRanges").some(isOpenToAll),
        "spec.loadBalancerSourceRanges has every address of the internet.",
        "Name the networks that may reach it.",
      ),
  },
};

const ACTIONS_FIX =
  "Name the actions that are needed; the provider's documentation of the resource lists them.";

function allowedActions(document: unknown): readonly Finding[] {
  if (document === undefined) return [];
  if (document === UNKNOWN) return [undecided("the policy's document")];
  const parsed = typeof document === "string" ? parsedJson(document) : document;
  if (!isMapping(parsed))
    return [{ reason: "The policy's document is not a JSON object.", fix: "Write it with JSON.stringify." }];
  return [parsed.Statement].flat().flatMap((statement, index) => {
    const path = `Statement[${index}]`;
    const [effect, notAction] = [at(statement, "Effect"), at(statement, "NotAction")];
    if (effect === UNKNOWN) return [undecided(`${path}.Effect`)];
    if (effect !== "Allow") return [];
    if (notAction !== undefined)
      return [{ reason: `${path} allows all actions but some (NotAction).`, fix: ACTIONS_FIX }];
    const actions = [at(statement, "Action")].flat();
    const wide = actions.find((action) => typeof action === "string" && /^(\*+|[\w-]+:\*+)$/.test(action));
    if (wide === undefined && actions.includes(UNKNOWN)) return [undecided(`${path}.Action`)];
    const reason = `${path} allows ${wide}: everybody with the role can do all of it.`;
    return violatedIf(wide !== undefined, reason, ACTIONS_FIX);
  });
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** AWS's own policies that allow all actions, or all of a service. */
const WIDE_POLICY = /:aws:policy\/(.*\/)?(AdministratorAccess|PowerUserAccess|\w*FullAccess)$/;

/** A policy of the stack itself has an ARN only after `up`; its document is checked. */
function widePolicy(arn: unknown): readonly Finding[] {
  const isWide = typeof arn === "string" && WIDE_POLICY.test(arn);
  return violatedIf(isWide, `${arn} allows every action, or every one of a service.`, ACTIONS_FIX);
}

const attachedPolicy: Check = ({ inputs }) => widePolicy(inputs.policyArn);

export const iamActionHasNoWildcard: Rule = {
  description: "No IAM policy allows all actions, or all actions of a service.",
  level: "mandatory",
  scope: "resource",
  checks: {
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": attachedPolicy,
    "aws:iam/userPolicyAttachment:UserPolicyAttachment": attachedPolicy,
    "aws:iam/role:Role": ({ inputs: { assumeRolePolicy, inlinePolicies, managedPolicyArns } }) => [
      ...allowedActions(assumeRolePolicy),
      ...listAt(inlinePolicies).flatMap((inline) => allowedActions(at(inline, "policy"))),
      ...listAt(managedPolicyArns).flatMap(widePolicy),
    ],
    // AWS requires `kms:*` for the account's root in the policy of a key, or the key can be lost.
    // https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
    "aws:kms/key:Key": () => [],
    "aws:kms/keyPolicy:KeyPolicy": () => [],
    // It limits what roles allow.
    "aws:ec2/vpcEndpoint:VpcEndpoint": () => [],
    // Policies of roles, users and groups, and of resources such as file systems and buckets.
    "aws:*": ({ inputs }) => allowedActions(inputs.policy),
  },
};
