/**
 * States of a project (contract section 2). `creating` and `deleting` are transient: they are seen only after a crash.
 */
export const PROJECT_STATUSES = ['creating', 'active', 'inactive', 'deleting'] as const;

export type ProjectStatus = (typeof PROJECT_STATUSES)[number];

/** What the first start of a service with an embedded Postgres creates. */
export const FIRST_PROJECT = { name: 'default', token: 'first start' } as const;
