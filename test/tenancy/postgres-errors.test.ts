/** The error code, the message and the hint for an error of Postgres (src/tenancy/postgres-errors.ts). */
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/contract/errors.js';
import { PostgresError } from '../../src/pg/index.js';
import { codeOf, fromPostgres } from '../../src/tenancy/postgres-errors.js';

const codeFor = (sqlstate: string, message: string, source?: string) =>
  codeOf(new PostgresError(message, sqlstate, 'ERROR', { source }));

describe('an I/O error below Postgres', () => {
  it.each([
    ['58030', 'could not write block 7 of file "base/1/2": Input/output error', 'md.c'],
    ['XX000', 'could not extend file "base/1/2": File too large', 'md.c'],
    ['XX000', 'could not extend file "base/1/2" with FileFallocate(): Disk quota exceeded', 'md.c'],
    ['XX000', 'konnte Datei »base/1/2« nicht erweitern: Datei zu groß', 'md.c'],
    ['42501', 'could not create file "base/1/2": Read-only file system', 'md.c'],
    ['42501', 'konnte temporäre Datei »base/pgsql_tmp/1« nicht erzeugen: Das Dateisystem ist nur lesbar', 'fd.c'],
  ])('%s %s: the database is unavailable, and the statement is not at fault', (sqlstate, message, source) => {
    expect(codeFor(sqlstate, message, source)).toBe('database_unavailable');
  });

  it('53100: the disk is full', () => {
    expect(codeFor('53100', 'could not extend file "base/1/2": No space left on device', 'md.c')).toBe('disk_full');
  });

  it('leaves those SQLSTATEs unchanged if they come from elsewhere', () => {
    expect(codeFor('XX000', 'cache lookup failed for type 1', 'lsyscache.c')).toBe('sql_error');
    expect(codeFor('42501', 'permission denied for table x', 'aclchk.c')).toBe('permission_denied');
    expect(codeFor('53400', 'temporary file size exceeds "temp_file_limit" (2097152kB)', 'fd.c')).toBe('sql_error');
  });

  it('does not trust a message that a statement raises itself', () => {
    expect(codeFor('XX000', 'could not extend file "base/1/2": File too large', 'pl_exec.c')).toBe('sql_error');
  });
});

describe('damaged data', () => {
  const of = (sqlstate: string, source: string, routine?: string) =>
    codeOf(new PostgresError('any', sqlstate, 'ERROR', { source, routine }));

  it.each([
    ['XX001', 'bufmgr.c', 'buffer_readv_report'],
    ['XX001', 'md.c', 'mdread'],
    ['XX001', 'heaptoast.c', undefined],
    ['XX002', 'nbtpage.c', '_bt_checkpage'],
    ['58P01', 'md.c', 'mdopenfork'],
    ['58P01', 'slru.c', 'SlruReportIOError'],
    ['58P01', 'relmapper.c', 'read_relmap_file'],
    ['58030', 'md.c', 'mdread'],
    ['58030', 'md.c', 'mdreadv'],
    ['58030', 'md.c', 'md_readv_report'],
    ['XX000', 'relmapper.c', 'read_relmap_file'],
  ])('%s in %s: an error of its own', (sqlstate, source, routine) => {
    expect(of(sqlstate, source, routine)).toBe('data_corrupted');
  });

  it.each([
    ['XX001', 'pl_exec.c', 'exec_stmt_raise', 'sql_error'],
    ['58P01', 'genfile.c', 'read_binary_file', 'sql_error'],
    ['58P01', 'dfmgr.c', 'internal_load_library', 'sql_error'],
    ['58030', 'md.c', 'mdwritev', 'database_unavailable'],
    ['58030', 'xlog.c', 'XLogWrite', 'database_unavailable'],
  ])('%s in %s (%s): %s', (sqlstate, source, routine, code) => {
    expect(of(sqlstate, source, routine)).toBe(code);
  });
});

describe('the hint', () => {
  const hintOf = (sqlstate: string, fields: PostgresError['fields']) =>
    (fromPostgres(new PostgresError('any', sqlstate, 'ERROR', fields)) as EngineError).hint;

  it('says what is full, and what frees space', () => {
    expect(hintOf('53100', { source: 'md.c', hint: 'Check free disk space.' })).toBe(
      'DROP and TRUNCATE free space if they still work; otherwise ask the operator.',
    );
  });

  it('is that of Postgres otherwise', () => {
    expect(hintOf('42501', { source: 'aclchk.c', hint: 'any' })).toBe('any');
  });
});

describe('lack of memory', () => {
  it.each([
    ['out of shared memory', 'lock.c', 'overloaded'],
    ['Shared Memory aufgebraucht', 'lock.c', 'overloaded'],
    ['raised by hand: the state counts', 'pl_exec.c', 'overloaded'],
    ['out of memory', 'mcxt.c', 'sql_error'],
    ['Speicher aufgebraucht', 'aset.c', 'sql_error'],
  ])('%s (%s): %s', (message, source, code) => {
    expect(codeFor('53200', message, source)).toBe(code);
  });
});

describe('an unavailable lock', () => {
  it.each([
    ['55P03', 'canceling statement due to lock timeout', /could not be acquired in time/],
    ['40P01', 'deadlock detected', /^deadlock detected$/],
    ['40001', 'could not serialize access due to concurrent update', /^could not serialize access/],
  ])('%s %s: busy, with a message for the cause', (sqlstate, said, message) => {
    const error = fromPostgres(new PostgresError(said, sqlstate, 'ERROR', {}));
    expect(error).toBeInstanceOf(EngineError);
    expect(error).toMatchObject({ code: 'table_busy', message: expect.stringMatching(message) as string });
  });
});
