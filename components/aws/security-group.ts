/** What all security groups of a stack have in common. */

/**
 * Another VPC alone replaces one, and there its name is free: the new one comes first. Left alone, the provider would delete the
 * old one first because of its name, and AWS deletes none that endpoints, mount targets or a load balancer still have.
 */
export const GROUP_OPTIONS = { deleteBeforeReplace: false } as const;
