/** Free SQL for the tests of a file, which share a project. */
import { expect } from 'vitest';
import type { TestAnswer, TestProject } from './service.js';

interface FreeSql {
  readonly sql: (text: string, rest?: object) => Promise<TestAnswer>;
  /** The body of a statement that must succeed. */
  readonly run: (text: string, rest?: object) => Promise<Record<string, unknown>>;
}

/** @param project asked for with each statement: it is made before the first test */
export function freeSql(project: () => TestProject): FreeSql {
  const sql: FreeSql['sql'] = (text, rest = {}) =>
    project().call('POST', '/api/cdp/sql', { body: { sql: text, ...rest } });
  const run: FreeSql['run'] = async (text, rest) => {
    const answer = await sql(text, rest);
    expect(answer.text.slice(0, 500)).toMatch(/^\{"success":true/);
    expect(answer.status).toBe(200);
    return answer.body;
  };
  return { sql, run };
}
