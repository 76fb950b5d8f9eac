/**
 * Completes from the project's schema and the statement at the cursor. Searches no further than it shows, so thousands
 * of tables do not slow down typing.
 */
import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete';
import type { Table } from '../../../src/client/index.js';
import { type Token, tokensOf } from '../../../src/contract/sql-tokens.js';
import { readColumns, tableByName, tables } from '../schema/catalog.js';
import { nameOf, quoted } from './sql-names.js';
import { statementAt } from './statements.js';

/** Maximum number of completions shown at once. */
const MAX_SHOWN = 60;

const PHRASES = (
  'SELECT,FROM,WHERE,GROUP BY,ORDER BY,HAVING,LIMIT,OFFSET,JOIN,LEFT JOIN,INNER JOIN,FULL JOIN,CROSS JOIN,LATERAL,ON,USING,AS,' +
  'AND,OR,NOT,IN,EXISTS,BETWEEN,LIKE,ILIKE,IS NULL,IS NOT NULL,DISTINCT,CASE,WHEN,THEN,ELSE,END,UNION ALL,EXCEPT,INTERSECT,' +
  'WITH,RECURSIVE,VALUES,INSERT INTO,UPDATE,SET,DELETE FROM,RETURNING,ON CONFLICT,DO NOTHING,CREATE TABLE,CREATE VIEW,' +
  'CREATE INDEX,ALTER TABLE,ADD COLUMN,DROP TABLE,DROP COLUMN,EXPLAIN,ANALYZE,ASC,DESC,NULLS LAST,NULLS FIRST,OVER,' +
  'PARTITION BY,FILTER,CAST,COALESCE,COUNT,SUM,AVG,MIN,MAX,ROUND,EXTRACT,DATE_TRUNC,GENERATE_SERIES,NOW,CURRENT_DATE,' +
  'INTERVAL,TRUE,FALSE,NULL'
).split(',');

const WORD = /(?:[\p{L}_][\p{L}\p{N}_$]*|"[^"]*)?$/u;

export function completeSql(context: CompletionContext): CompletionResult | null {
  const { state, pos, explicit } = context;
  const line = state.doc.lineAt(pos);
  const before = line.text.slice(0, pos - line.from);
  const [written = ''] = WORD.exec(before) ?? [];
  const prefix = written.replace(/^"/, '');
  const from = pos - written.length;
  const [, qualifier] =
    /([\p{L}_][\p{L}\p{N}_$]*|"[^"]+")\.$/u.exec(before.slice(0, before.length - written.length)) ?? [];
  if (written === '' && qualifier === undefined && !explicit) return null;

  const statement = statementAt(state.doc.toString(), pos);
  if (statement === undefined && !explicit) return null;
  if (statement !== undefined && isInText(statement.text, pos - statement.from)) return null;
  const used = statement === undefined ? new Map<string, Table>() : tablesIn(statement.text);
  const options =
    qualifier === undefined
      ? [...columnsOf(used, prefix), ...tablesLike(prefix), ...keywordsLike(prefix)]
      : qualified(qualifier.replaceAll('"', ''), used, prefix);
  return options.length === 0 ? null : { from, to: pos, options: options.slice(0, MAX_SHOWN), filter: false };
}

/** Nothing is completed in a comment, a string or a number. */
function isInText(text: string, at: number): boolean {
  for (const token of tokensOf(text)) {
    if (token.from >= at) return false;
    if (at <= token.to) {
      const isEnded = at === token.to && token.kind === 'string';
      return ['comment', 'string', 'number'].includes(token.kind) && !isEnded;
    }
  }
  return false;
}

/** The tables of a statement by the names that it gives them. */
export function tablesIn(text: string): Map<string, Table> {
  const used = new Map<string, Table>();
  const tokens = [...tokensOf(text)].filter(({ kind }) => kind !== 'comment');
  const isName = (token: Token | undefined): token is Token => token?.kind === 'word' || token?.kind === 'quoted';
  tokens.forEach((token, i) => {
    if (!isName(token)) return;
    const table = tableByName.value.get(nameOf(text, token));
    if (table === undefined) return;
    used.set(table.name, table);
    // Their columns may be available at the next key.
    void readColumns(table.name);
    let next = tokens[i + 1];
    if (next !== undefined && text.slice(next.from, next.to).toLowerCase() === 'as') next = tokens[i + 2];
    if (isName(next) && !NO_ALIAS.test(text.slice(next.from, next.to))) used.set(nameOf(text, next), table);
  });
  return used;
}

const NO_ALIAS =
  /^(where|join|left|right|inner|full|cross|natural|on|using|group|order|having|limit|offset|union|except|intersect|set|values|select|returning|window|fetch|for|lateral|tablesample|default|when|then|as)$/i;

function qualified(name: string, used: Map<string, Table>, prefix: string): Completion[] {
  const table = used.get(name) ?? used.get(name.toLowerCase()) ?? tableByName.value.get(name);
  if (table !== undefined) return columnOptions(table, prefix);
  return name === 'data' ? tablesLike(prefix) : [];
}

function columnsOf(used: Map<string, Table>, prefix: string): Completion[] {
  const seen = new Set<Table>(used.values());
  return [...seen].flatMap((table) => columnOptions(table, prefix));
}

function columnOptions(table: Table, prefix: string): Completion[] {
  return like(table.columns, prefix).map(({ name, type, comment }) => ({
    label: name,
    apply: quoted(name),
    type: 'property',
    detail: `${type} · ${table.name}`,
    ...(comment === null ? {} : { info: comment }),
  }));
}

const tablesLike = (prefix: string): Completion[] =>
  like(tables.value ?? [], prefix).map(({ name, kind, comment }) => ({
    label: name,
    apply: quoted(name),
    type: 'class',
    detail: kind.replace('_', ' '),
    ...(comment === null ? {} : { info: comment }),
  }));

function keywordsLike(prefix: string): Completion[] {
  if (prefix === '') return [];
  const isLower = prefix === prefix.toLowerCase();
  const wanted = prefix.toUpperCase();
  return PHRASES.filter((word) => word.startsWith(wanted) && word !== wanted).map((word) => ({
    label: isLower ? word.toLowerCase() : word,
    type: 'keyword',
  }));
}

/** Names that begin with the prefix, then names that contain it, no more than are shown. */
function like<Named extends { readonly name: string }>(all: readonly Named[], prefix: string): Named[] {
  const wanted = prefix.toLowerCase();
  const first: Named[] = [];
  const second: Named[] = [];
  for (const one of all) {
    const at = one.name.toLowerCase().indexOf(wanted);
    if (at === 0) first.push(one);
    else if (at > 0 && second.length < MAX_SHOWN) second.push(one);
    if (first.length >= MAX_SHOWN) break;
  }
  return [...first, ...second].slice(0, MAX_SHOWN);
}
