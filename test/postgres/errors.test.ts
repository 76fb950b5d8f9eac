import { describe, expect, it } from 'vitest';
import { errorCode, PostgresError } from '../../src/postgres/errors.js';

const codeOf = (sqlstate: string, message: string) => errorCode(new PostgresError(message, sqlstate, 'ERROR'));

describe('a write that fails below Postgres', () => {
  it.each([
    ['53100', 'could not extend file "base/1/2": No space left on device'],
    ['58030', 'could not write block 7 of file "base/1/2": Input/output error'],
    ['XX000', 'could not extend file "base/1/2": File too large'],
    ['XX000', 'could not extend file "base/1/2" with FileFallocate(): Disk quota exceeded'],
    ['42501', 'could not create file "base/1/2": Read-only file system'],
  ])('%s %s: the database is not available, and the statement not to blame', (sqlstate, message) => {
    expect(codeOf(sqlstate, message)).toBe('database_unavailable');
  });

  it('leaves those states what they are elsewhere', () => {
    expect(codeOf('XX000', 'cache lookup failed for type 1')).toBe('sql_error');
    expect(codeOf('42501', 'permission denied for table x')).toBe('permission_denied');
    expect(codeOf('53400', 'temporary file size exceeds "temp_file_limit" (2097152kB)')).toBe('sql_error');
  });
});
