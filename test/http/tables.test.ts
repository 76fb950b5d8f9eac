/** Creating, reading and dropping tables over HTTP (specification 4.1, contract section 5). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestService, type TestService } from '../support/service.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.close());

describe('works', () => {
  it('creates a table and answers its columns, id first', async () => {
    const project = await service.project();
    const answer = await project.call('POST', '/api/cdp/schema/table', {
      body: { table_name: 'customers', columns: [{ name: 'email', type: 'TEXT' }] },
    });
    expect(answer.status).toBe(201);
    expect(answer.body).toMatchObject({ success: true, table: 'customers', columns: ['id', 'email'] });
  });
});
