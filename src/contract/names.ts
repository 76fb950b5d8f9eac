/** Valid names of tables and columns (contract C4.1). Names are never truncated, folded or repaired. */
export const NAME_PATTERN = '^[A-Za-z_][A-Za-z0-9_]{0,62}$';
export const NAME_IN_WORDS = '1 to 63 ASCII letters, digits and underscores, the first one not a digit';

/** Valid names of projects (contract C3.1). */
export const PROJECT_NAME_PATTERN = '^[a-z][a-z0-9-]{0,62}$';

const PROJECT_NAME = new RegExp(PROJECT_NAME_PATTERN);

/** Check this before a query: Postgres accepts no text with U+0000. */
export const isProjectName = (name: string): boolean => PROJECT_NAME.test(name);
export const PROJECT_NAME_IN_WORDS = '1 to 63 lowercase ASCII letters, digits and hyphens, the first one a letter';

/** The rule for names of servers is the same. */
export const SERVER_NAME_PATTERN = PROJECT_NAME_PATTERN;
export const isServerName = isProjectName;
export const SERVER_NAME_IN_WORDS = PROJECT_NAME_IN_WORDS;

/** Valid names of the roles that a project makes: SQL needs no quotes for them, and a server by address adds a prefix. */
export const ROLE_NAME_PATTERN = '^[a-z][a-z0-9_]{0,39}$';
export const ROLE_NAME_IN_WORDS = '1 to 40 lowercase ASCII letters, digits and underscores, the first one a letter';

const ROLE_NAME = new RegExp(ROLE_NAME_PATTERN);

/** Roles of the service, of Postgres and of backups. */
const RESERVED_ROLE = /^(writer|reader|public|none|postgres|pg_.*|cdp.*|b_iter|[a-z]_[0-9a-f]{20}.*)$/;

export const isRoleName = (name: string): boolean => ROLE_NAME.test(name);
export const isServiceRole = (name: string): boolean => RESERVED_ROLE.test(name);

/** Valid names of what a project saves: schedules, queries, segments. */
export const SAVED_NAME_PATTERN = '^[A-Za-z][A-Za-z0-9_-]{0,62}$';
export const SAVED_NAME_IN_WORDS = '1 to 63 ASCII letters, digits, underscores and hyphens, the first one a letter';

const SAVED_NAME = new RegExp(SAVED_NAME_PATTERN);

export const isSavedName = (name: string): boolean => SAVED_NAME.test(name);

/** Scopes of a token (contract C3.9). */
export const SCOPES = [
  'schema:read',
  'schema:write',
  'data:append',
  'data:write',
  'sql:read',
  'sql:write',
  'queries:run',
  'subjects:erase',
] as const;

export type Scope = (typeof SCOPES)[number];

/** What a token with a scope may do. */
export const SCOPE_IN_WORDS: Readonly<Record<Scope, string>> = {
  'schema:read': 'see tables and columns',
  'schema:write': 'create and change tables',
  'data:append': 'insert records, and learn nothing about those that are stored',
  'data:write': 'insert, update and delete records',
  'sql:read': 'run SQL that reads',
  'sql:write': 'run any SQL',
  'queries:run': 'run saved queries, and no other SQL',
  'subjects:erase': 'erase everything about a person',
};

/** Scopes that a token has only if they are asked for: others include two of them, and few may erase people. */
const ON_REQUEST: readonly Scope[] = ['data:append', 'queries:run', 'subjects:erase'];

/** The scopes of a token for which none are chosen. */
export const DEFAULT_SCOPES: readonly Scope[] = SCOPES.filter((scope) => !ON_REQUEST.includes(scope));

/** The scopes of a token that only reads. */
export const READ_SCOPES: readonly Scope[] = ['schema:read', 'sql:read'];
