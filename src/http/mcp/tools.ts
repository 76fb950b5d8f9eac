/** The list of tools. */
import type { Call } from '../api/route.js';
import { INSERT, DRY_RUN_INSERT } from './insert-tools.js';
import { DESCRIBE_TABLE, LIST_TABLES } from './schema-tools.js';
import { QUERY, DRY_RUN_SQL } from './sql-tools.js';
import type { Tool } from './tool.js';

const TOOLS: readonly Tool[] = [LIST_TABLES, DESCRIBE_TABLE, QUERY, DRY_RUN_SQL, DRY_RUN_INSERT, INSERT];

/** The tools of this service. The scopes of a token decide which are listed and allowed. */
export const servedTools = ({ settings }: Call): readonly Tool[] =>
  TOOLS.filter((tool) => tool !== INSERT || settings.mcpWrites);

export const listedTools = (call: Call): readonly Tool[] =>
  servedTools(call).filter(({ scope }) => call.caller.scopes.has(scope));
