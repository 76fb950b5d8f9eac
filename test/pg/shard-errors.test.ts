/**
 * Errors that a Citus coordinator passes on from a worker, in the words of Citus 13.2; all other errors stay unchanged.
 */
import { describe, expect, it } from 'vitest';
import { PostgresError } from '../../src/pg/index.js';

const error = (message: string, more: Record<string, string> = {}) =>
  PostgresError.fromFields(new Map(Object.entries({ C: 'XX000', M: message, R: 'ReportCopyError', ...more })));

describe('an error of a worker', () => {
  it.each([
    [
      'duplicate key value violates unique constraint "people_email_key_102010"',
      'duplicate key value violates unique constraint "people_email_key"',
      { sqlstate: '23505', fields: { constraint: 'people_email_key' } },
    ],
    [
      'null value in column "n" of relation "people_2024_102011" violates not-null constraint',
      'null value in column "n" of relation "people_2024" violates not-null constraint',
      { sqlstate: '23502', fields: { column: 'n', table: 'people_2024' } },
    ],
    [
      'new row for relation "people_102011" violates check constraint "positive_20240101"',
      'new row for relation "people" violates check constraint "positive_20240101"',
      { sqlstate: '23514', fields: { table: 'people', constraint: 'positive_20240101' } },
    ],
    [
      'new row for relation "people_102011" violates check constraint "later_102011"',
      'new row for relation "people" violates check constraint "later"',
      { sqlstate: '23514', fields: { table: 'people', constraint: 'later' } },
    ],
    [
      'insert or update on table "people_102011" violates foreign key constraint "people_boss_fkey_102011"',
      'insert or update on table "people" violates foreign key constraint "people_boss_fkey"',
      { sqlstate: '23503', fields: { table: 'people', constraint: 'people_boss_fkey' } },
    ],
  ])('is translated: %s', (message, shown, restored) => {
    const found = error(message);
    expect(found.message).toBe(shown);
    expect(found).toMatchObject(restored);
  });

  it('does not name a shard in its detail, and keeps its SQLSTATE', () => {
    const detail = 'Key (id)=(1) is still referenced from table "orders_102044".';
    const found = error('row is too big: size 9040, maximum size 8160', {
      ...{ C: '54000', D: detail, R: 'ReportResultError' },
    });
    expect(found.sqlstate).toBe('54000');
    expect(found.fields.detail).toBe('Key (id)=(1) is still referenced from table "orders".');
  });

  it('is a connection failure if the connection broke during the statement', () => {
    expect(error('failure on connection marked as essential: 10.0.0.2:5432', { R: 'x' }).sqlstate).toBe('08006');
  });
});

it('leaves every other error unchanged', () => {
  const message = 'duplicate key value violates unique constraint "people_102010"';
  const found = error(message, { C: '23505', R: '_bt_check_unique', n: 'people_102010', t: 'people_20240101' });
  expect(found).toMatchObject({ message, sqlstate: '23505' });
  expect(found.fields).toMatchObject({ constraint: 'people_102010', table: 'people_20240101' });
  expect(error('what a function raised', { R: 'exec_stmt_raise' }).sqlstate).toBe('XX000');
});
