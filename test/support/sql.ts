/** Free SQL for the tests of a file, which share a project. */
import { expect } from 'vitest';
import type { TestResponse, TestProject } from './service.js';

interface FreeSql {
  readonly sql: (text: string, rest?: object) => Promise<TestResponse>;
  /** The body of a statement that must succeed. */
  readonly run: (text: string, rest?: object) => Promise<Record<string, unknown>>;
}

/** @param project asked for with each statement: it is made before the first test */
export function freeSql(project: () => TestProject): FreeSql {
  const sql: FreeSql['sql'] = (text, rest = {}) =>
    project().call('POST', '/api/cdp/sql', { body: { sql: text, ...rest } });
  const run: FreeSql['run'] = async (text, rest) => {
    const response = await sql(text, rest);
    expect(response.text.slice(0, 500)).toMatch(/^\{"success":true/);
    expect(response.status).toBe(200);
    return response.body;
  };
  return { sql, run };
}
