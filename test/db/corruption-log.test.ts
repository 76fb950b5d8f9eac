/** What the log says of damaged data: where it is, once in a while, and nothing that a project has chosen. */
import { expect, it } from 'vitest';
import { CorruptionLog } from '../../src/db/corruption-log.js';
import { PostgresError } from '../../src/pg/index.js';

function recorded() {
  const lines: [object, string][] = [];
  const add = (fields: object, message: string) => void lines.push([fields, message]);
  const never = () => {
    throw new Error('Damaged data is an error');
  };
  return { lines, damage: new CorruptionLog({ info: never, warn: never, error: add }) };
}

const error = (sqlstate: string, message: string, source: string, routine = 'any') =>
  new PostgresError(message, sqlstate, 'ERROR', { source, routine });

it('is a line with the project, the file and the block, but no name of a table or an index', () => {
  const { lines, damage } = recorded();
  const cases: [PostgresError, object][] = [
    [
      error('XX001', 'invalid page in block 610 of relation "base/5/65637"', 'bufmgr.c'),
      { file: 'base/5/65637', block: 610 },
    ],
    [
      error('XX001', 'invalid page in block 3 of relation base/5/65637_vm', 'bufmgr.c'),
      { file: 'base/5/65637_vm', block: 3 },
    ],
    [
      error('XX001', 'could not read blocks 4..5 in file "base/5/65637.1": read only 0 of 16384 bytes', 'md.c'),
      { file: 'base/5/65637.1', block: 4 },
    ],
    [error('XX002', 'index "secret_of_ada" contains unexpected zero page at block 5', 'nbtpage.c'), { block: 5 }],
    [error('58P01', 'could not access status of transaction 7', 'slru.c'), {}],
  ];
  for (const [one] of cases) damage.noteError('shop', one);
  expect(lines).toEqual(
    cases.map(([{ sqlstate }, place]) => [
      { project: 'shop', sqlstate, routine: 'any', ...place },
      'damaged data was found',
    ]),
  );
  expect(damage.count).toBe(cases.length);
  expect(JSON.stringify(lines)).not.toContain('secret');
});

it('repeats no place within a minute, but counts every error once', () => {
  const { lines, damage } = recorded();
  const one = error('XX001', 'invalid page in block 1 of relation "base/5/1"', 'bufmgr.c');
  damage.noteError('shop', one);
  damage.noteError(null, one);
  damage.noteError('shop', error('XX001', one.message, 'bufmgr.c'));
  damage.noteError('mill', error('XX001', one.message, 'bufmgr.c'));
  damage.noteError('shop', new Error('any'));
  damage.noteError('shop', error('XX001', one.message, 'pl_exec.c'));
  expect(lines.map(([fields]) => (fields as { project: string }).project)).toEqual(['shop', 'mill']);
  expect(damage.count).toBe(3);
});
