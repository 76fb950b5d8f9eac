/** Which tools a caller has. */
import type { Call } from '../api/route.js';
import { INSERT, REHEARSE_INSERT } from './insert-tools.js';
import { DESCRIBE_TABLE, LIST_TABLES } from './schema-tools.js';
import { QUERY, REHEARSE_SQL } from './sql-tools.js';
import type { Tool } from './tool.js';

const TOOLS: readonly Tool[] = [LIST_TABLES, DESCRIBE_TABLE, QUERY, REHEARSE_SQL, REHEARSE_INSERT, INSERT];

/** Those of this service. What a token may not use is refused by its scope, and not listed. */
export const servedTools = ({ settings }: Call): readonly Tool[] =>
  TOOLS.filter((tool) => tool !== INSERT || settings.mcpWrites);

export const listedTools = (call: Call): readonly Tool[] =>
  servedTools(call).filter(({ scope }) => call.caller.scopes.has(scope));
