/** What a table or column may be called (contract section 3). Names are never truncated, folded or repaired. */
export const NAME_PATTERN = '^[A-Za-z_][A-Za-z0-9_]{0,62}$';

/** What a project may be called (contract section 2). */
export const PROJECT_NAME_PATTERN = '^[a-z][a-z0-9-]{0,62}$';

/** Scopes of a token (contract section 2). */
export const SCOPES = ['schema:read', 'schema:write', 'data:write', 'sql:read', 'sql:write'] as const;

export type Scope = (typeof SCOPES)[number];
