/** What becomes of fields that no column of the table has, if the caller does not want them refused. */
import type { UnknownKeys } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import type { Table } from '../catalog/catalog.js';
import { requireColumns } from '../catalog/find-table.js';

/** They are left out, or collected as an object in a JSONB column. */
export type UnknownRule = 'ignore' | { readonly into: string };

/** Whether the rule can be followed; the checked path says why not. */
export const fitsTable = (rule: UnknownRule | undefined, table: Table): boolean =>
  rule === undefined ||
  rule === 'ignore' ||
  table.columns.some(({ name, type }) => name === rule.into && type === 'JSONB');

/** @throws EngineError unknown_column, invalid_request */
export function unknownKeys(rule: UnknownRule | undefined, table: Table): UnknownKeys {
  if (rule === undefined) return 'refuse';
  if (rule === 'ignore') return 'ignore';
  requireColumns(table, [rule.into], 'unknown=into');
  const into = table.columns.findIndex(({ name }) => name === rule.into);
  const { type, displayType = '' } = table.columns[into] ?? {};
  if (type === 'JSONB') return { into };
  throw new EngineError('invalid_request', `unknown=into: column ${quoted(rule.into)} is ${displayType}, not JSONB`, {
    hint: 'Name a column of type JSONB, which keeps all of them as one object.',
  });
}
