/** States of a project (contract C3.3). `creating` and `deleting` are transient: they are seen only after a crash. */
export const PROJECT_STATUSES = ['creating', 'active', 'inactive', 'deleting'] as const;

export type ProjectStatus = (typeof PROJECT_STATUSES)[number];

export const READY_STATUSES: readonly ProjectStatus[] = ['active', 'inactive'];

/** False for a project that a crash left partly created or deleted: it has nothing to save or use. */
export const isReady = ({ status }: { readonly status: ProjectStatus }): boolean => READY_STATUSES.includes(status);

/** What the first start of a service with an embedded Postgres creates. */
export const FIRST_PROJECT = { name: 'default', token: 'first start' } as const;
