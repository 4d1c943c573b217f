/** What a network that a stack on AWS makes is, where its stack file says nothing. */
export const NETWORK_DEFAULTS = {
  zones: ["a", "b"],
  cidr: "10.64.0.0/16",
  nat: "one",
  endpoints: "all",
  flowLogs: true,
} as const;
